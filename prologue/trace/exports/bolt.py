"""BOLT's pre-aggregated profile, which ``perf2bolt -pa`` reads: a line for each branch (B) and each straight run (F).

llvm-project: bolt/include/bolt/Profile/DataAggregator.h, LLVM 19. Numbers are hexadecimal, except counts; that of
mispredicted branches is 0, for no trace has it.
"""

from __future__ import annotations

from typing import BinaryIO

from prologue.arrays import I64, Bool
from prologue.trace.exports.profile import KernelProfile
from prologue.trace.exports.subject import ExportSubject
from prologue.trace.ranges import Batch


class BoltExport:
    """Writes the counts at the end."""

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        self._stream = stream
        self._profile = KernelProfile(subject)

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """See ``Export``."""
        self._profile.add(batch, numbers, keep)

    def finish(self) -> list[str]:
        """See ``Export``."""
        runs, branches, notes = self._profile.finish()
        for origin, target, count in zip(*(column.tolist() for column in branches), strict=True):
            self._stream.write(f"B {origin:x} {target:x} {count} 0\n".encode())
        for first, last, count in zip(*(column.tolist() for column in runs), strict=True):
            self._stream.write(f"F {first:x} {last:x} {count}\n".encode())
        return notes
