"""Branch stacks as ``perf script -F ip,brstack`` prints them: an address, and the branches that led there, last first.

tools/perf/builtin-script.c, 6.1. No trace says whether a branch was predicted: as perf does for CoreSight, all are.
The kernel's addresses are those of its file, as without KASLR: what reads branch stacks has nothing but that file.
"""

from __future__ import annotations

from collections import defaultdict
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool
from prologue.trace.exports.profile import linked_addresses
from prologue.trace.exports.runs import UNKNOWN, RunJoiner, Runs
from prologue.trace.exports.subject import ExportSubject
from prologue.trace.path.filters import Selection
from prologue.trace.ranges import TOP, Batch

_WORD: Final = np.uint64(4)
_MOST: Final = 64
"""Branches in a line: perf's default for those of a trace (perf-script(1), --itrace)."""


class BranchStackExport:
    """Writes each branch once: a line ends at that many branches, at a gap, and at the end of a CPU's trace."""

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        self._stream, self._program = stream, subject.known.kernels.host
        self._joiner, self._selection = RunJoiner(subject.known), Selection(apart=True)
        self._stacks: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """See ``Export``."""
        for runs in self._joiner.take(*self._selection.take(batch, numbers, keep)):
            self._write(runs)

    def finish(self) -> list[str]:
        """See ``Export``."""
        for runs in self._joiner.close():
            self._write(runs)
        for stack in self._stacks.values():
            self._flush(stack)
        return []

    def _write(self, runs: Runs) -> None:
        origins = self._addresses(runs["origin"], runs["before"]).tolist()
        starts = self._addresses(runs["start"], runs["program"]).tolist()
        for lane, entry, origin, start in zip(
            runs["lane"].tolist(), runs["entry"].tolist(), origins, starts, strict=True
        ):
            stack = self._stacks[lane]
            if entry == UNKNOWN or len(stack) == _MOST:
                self._flush(stack)
            if entry != UNKNOWN:
                stack.append((origin, start))

    def _addresses(self, vaddrs: U64, programs: npt.NDArray[np.int32]) -> U64:
        """Return addresses as the kernel's file has them; 0 for other code that ran where that file has its text."""
        linked, there = linked_addresses(self._program, vaddrs, vaddrs + _WORD)
        there &= programs == 0
        slid = vaddrs + np.uint64(self._program.kernel.slide & TOP)
        taken = linked_addresses(self._program, slid, slid + _WORD)[1]
        return np.where(there, linked, np.where(taken, np.uint64(0), vaddrs))

    def _flush(self, stack: list[tuple[int, int]]) -> None:
        if stack:
            branches = "".join(f" 0x{origin:x}/0x{target:x}/P/-/-/0/ " for origin, target in reversed(stack))
            self._stream.write(f" {stack[-1][1]:16x}{branches}\n".encode())
            stack.clear()
