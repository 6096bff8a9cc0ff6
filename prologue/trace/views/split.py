"""Ranges that go on from one function into the next, as one range in each."""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np

from prologue.arrays import I64, Bool
from prologue.trace.path.known import KnownRanges, PerNumber
from prologue.trace.ranges import EXCEPTION, GAP, LOST, RETURN, Batch

_BEFORE: Final = np.uint8(GAP | EXCEPTION | RETURN | LOST)
"""Flags of the step before a range."""


class SymbolSplit:
    """The ranges of a trace, split at symbols so that each is in one function."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._parts = cache(self._split)
        self._spans = PerNumber(self._goes_on, np.bool_)

    def take(self, batch: Batch, numbers: I64, keep: Bool) -> tuple[Batch, I64, Bool]:
        """Split the ranges of a batch; return them with the number of each and whether it is kept."""
        spans = self._spans.up_to(len(self._known.table))[numbers]
        if not spans.any():
            return batch, numbers, keep
        split = [self._parts(number) for number in numbers[spans].tolist()]
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
        split_numbers = numbers[owner]
        split_numbers[is_part] = np.concatenate([rows for _, rows in split])
        return batch._replace(ranges=ranges), split_numbers, keep[owner]

    def _split(self, number: int) -> tuple[list[int], I64]:
        """Return where the parts of a range begin, and the number of each."""
        start, end, program, *_ = self._known.table[number].tolist()
        inner = self._known.kernels.programs[program].starts_within(start + 4, end)
        starts = [start, *(vaddr for vaddr in inner if not vaddr % 4)]
        return starts, self._known.parts(number, starts, [*starts[1:], end])

    def _goes_on(self, numbers: I64) -> Bool:
        """Return which distinct ranges go on into another function."""
        table, goes_on = self._known.table[numbers], np.zeros(len(numbers), np.bool_)
        for row, program in enumerate(self._known.kernels.programs):
            in_text = np.flatnonzero((table["program"] == row) & (table["piece"] >= 0))
            ends = table["start"][in_text], table["end"][in_text] - np.uint64(4)
            first, last = (program.place_starts(at, whole=False) for at in ends)
            goes_on[in_text] = first != last
        return goes_on
