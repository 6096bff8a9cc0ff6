"""Ranges that go on from one function into the next, as one range in each."""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import I64, Bool
from prologue.trace.path.known import KnownRanges
from prologue.trace.ranges import EXCEPTION, GAP, LOST, RETURN, Batch

_BEFORE: Final = np.uint8(GAP | EXCEPTION | RETURN | LOST)
"""Flags of the step before a range."""


class SymbolSplit:
    """The ranges of a trace, split at symbols so that each is in one function."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._parts: dict[int, tuple[list[int], I64]] = {}
        self._spans = np.zeros(0, np.bool_)

    def take(self, batch: Batch, numbers: I64, keep: Bool) -> tuple[Batch, I64, Bool]:
        """Split the ranges of a batch; return them with the number of each and whether it is kept."""
        self._learn()
        spans = self._spans[numbers]
        if not spans.any():
            return batch, numbers, keep
        split = [self._split(number) for number in numbers[spans].tolist()]
        parts = np.ones(len(numbers), np.int64)
        parts[spans] = [len(starts) for starts, _ in split]
        owner = np.repeat(np.arange(len(numbers)), parts)
        ranges, is_part = batch.ranges[owner].copy(), np.repeat(spans, parts)
        first = np.append(True, owner[1:] != owner[:-1])
        ranges["start"][is_part] = np.array([start for starts, _ in split for start in starts], np.uint64)
        inner = np.flatnonzero(is_part & ~first)
        ranges["end"][inner - 1] = ranges["start"][inner]
        ranges["flags"][inner] &= ~_BEFORE
        ranges["cycles"][inner] = 0
        own = numbers[owner]
        own[is_part] = np.concatenate([rows for _, rows in split])
        self._learn()
        return batch._replace(ranges=ranges), own, keep[owner]

    def _split(self, number: int) -> tuple[list[int], I64]:
        """Return where the parts of a range begin, and the number of each."""
        if number not in self._parts:
            start, end, program, _, _ = self._known.table[number].tolist()
            inner = self._known.kernels.programs[program].starts_within(start + 4, end)
            starts = [start, *(vaddr for vaddr in inner if not vaddr % 4)]
            self._parts[number] = starts, self._known.parts(number, starts, [*starts[1:], end])
        return self._parts[number]

    def _learn(self) -> None:
        """Look at the distinct ranges that are new."""
        table, have = self._known.table, len(self._spans)
        if have == len(table):
            return
        fresh = np.zeros(len(table) - have, np.bool_)
        for row, program in enumerate(self._known.kernels.programs):
            own = np.flatnonzero((table["program"][have:] == row) & (table["piece"][have:] >= 0))
            new = table[have:][own]
            first, last = (program.place_starts(at, whole=False) for at in (new["start"], new["end"] - np.uint64(4)))
            fresh[own] = first != last
        self._spans = np.concatenate([self._spans, fresh])
