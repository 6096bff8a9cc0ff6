"""AutoFDO's text profile, which ``create_llvm_prof --profiler=text`` reads: ranges, addresses, branches, each counted.

google/autofdo: sample_reader.h. Addresses are relative to the first segment that is loaded, a range's end is the
address of its last instruction, and numbers are hexadecimal without 0x, except counts.
"""

from __future__ import annotations

from typing import BinaryIO

from prologue.arrays import I64, Bool
from prologue.trace.exports.profile import CountedPairs, KernelProfile
from prologue.trace.exports.subject import ExportSubject
from prologue.trace.ranges import Batch


class AutofdoExport:
    """Writes the counts at the end."""

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        self._stream = stream
        self._profile = KernelProfile(subject)
        segments = subject.known.kernels.host.kernel.image.segments
        self._base = segments[0].vaddr if segments else 0

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """See ``Export``."""
        self._profile.add(batch, numbers, keep)

    def finish(self) -> list[str]:
        """See ``Export``."""
        runs, branches, notes = self._profile.finish()
        self._write(runs, "-")
        self._stream.write(b"0\n")  # sampled addresses
        self._write(branches, "->")
        return notes

    def _write(self, pairs: CountedPairs, mark: str) -> None:
        self._stream.write(f"{len(pairs.counts)}\n".encode())
        for first, second, count in zip(*(column.tolist() for column in pairs), strict=True):
            self._stream.write(f"{first - self._base:x}{mark}{second - self._base:x}:{count}\n".encode())
