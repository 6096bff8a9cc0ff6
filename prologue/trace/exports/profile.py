"""Profiles of the kernel's file: how often each straight run and each branch was, at link-time addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.live.memory.ranges import TOP
from prologue.live.system.programs import Program
from prologue.trace.exports.runs import BRANCH, RunJoiner, Runs
from prologue.trace.exports.subject import ExportSubject
from prologue.trace.path.filters import Selection
from prologue.trace.ranges import Batch, count_instructions
from prologue.trace.readers.intern import DistinctRows, RunCounts
from prologue.words import counted

_WORD: Final = np.uint64(4)


class CountedPairs(NamedTuple):
    """Two addresses and how often; shape (n,), ascending."""

    first: U64
    second: U64
    counts: I64

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Yield them one by one."""
        return zip(*(column.tolist() for column in self), strict=True)


class _Pairs:
    """Counts pairs of addresses; memory grows with distinct ones only."""

    def __init__(self) -> None:
        self._pairs, self._counts = DistinctRows([("first", "<u8"), ("second", "<u8")]), RunCounts()

    def add(self, first: U64, second: U64) -> None:
        self._counts.add(self._pairs.numbers(first, second))

    def counted(self) -> CountedPairs:
        order = np.lexsort((self._pairs.table["second"], self._pairs.table["first"]))
        pairs, counts = self._pairs.table[order], self._counts.up_to(len(order))
        return CountedPairs(pairs["first"], pairs["second"], counts[order])


class AutofdoExport:
    """AutoFDO's text profile, which ``create_llvm_prof --profiler=text`` reads: counted ranges, addresses, branches.

    google/autofdo: sample_reader.h. Addresses are relative to the first segment that is loaded, a range's end is the
    address of its last instruction, and numbers are hexadecimal without 0x, except counts. What is not in the host's
    vmlinux (modules, guests, processes) is counted and left out.
    """

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        self._stream, self._program = stream, subject.known.kernels.host
        self._joiner, self._selection = RunJoiner(subject.known), Selection(apart=True)
        self._runs, self._branches = _Pairs(), _Pairs()
        self._elsewhere = 0  # instructions

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """See ``Export``; a range that is not kept is a gap."""
        chosen, own = self._selection.take(batch, numbers, keep)
        self._elsewhere += int(count_instructions(chosen.ranges).sum())  # T32's are not of four bytes each
        for runs in self._joiner.take(chosen, own):
            self._add(runs)

    def finish(self) -> list[str]:
        """See ``Export``."""
        for runs in self._joiner.close():
            self._add(runs)
        self._write(self._runs.counted(), self._branches.counted())
        count = self._elsewhere
        note = f"{counted(count, 'instruction')} not of {self._program.name} left out: such a file is of one image"
        return [note] if count else []

    def _add(self, runs: Runs) -> None:
        starts, there = linked_addresses(self._program, runs["start"], runs["end"])
        there &= runs["program"] == 0
        sizes = (runs["end"] - runs["start"])[there]
        self._elsewhere -= int((sizes // _WORD).sum())
        self._runs.add(starts[there], starts[there] + sizes - _WORD)
        origins, known = linked_addresses(self._program, runs["origin"], runs["origin"] + _WORD)
        known &= there & (runs["before"] == 0) & (runs["entry"] == BRANCH)
        self._branches.add(origins[known], starts[known])

    def _write(self, runs: CountedPairs, branches: CountedPairs) -> None:
        segments = self._program.kernel.image.segments
        base = segments[0].vaddr if segments else 0
        for pairs, mark, after in ((runs, "-", "0\n"), (branches, "->", "")):  # after the runs, 0 sampled addresses
            lines = (f"{first - base:x}{mark}{second - base:x}:{count}\n" for first, second, count in pairs.rows())
            self._stream.write(f"{len(pairs.counts)}\n{''.join(lines)}{after}".encode())


def linked_addresses(program: Program, starts: U64, ends: U64) -> tuple[U64, Bool]:
    """Return where the kernel's file has each range, and whether it has it; shape of ``starts``."""
    rows = program.piece_of(starts, ends)
    slides = np.array([piece.owner.slide & TOP for piece in program.pieces] or [0], np.uint64)
    own = np.array([piece.owner.image is program.kernel.image for piece in program.pieces] or [False])
    return starts - slides[rows], (rows >= 0) & own[rows]
