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
        self._parts: dict[int, list[int]] = {}
        self._spans = np.zeros(0, np.bool_)

    def take(self, batch: Batch, numbers: I64, keep: Bool) -> tuple[Batch, I64, Bool]:
        """Split the ranges of a batch; return them with the number of each and whether it is kept."""
        self._learn()
        spans = self._spans[numbers]
        if not spans.any():
            return batch, numbers, keep
        starts = {number: self._starts(number) for number in np.unique(numbers[spans]).tolist()}
        parts = np.ones(len(numbers), np.int64)
        parts[spans] = [len(starts[number]) for number in numbers[spans].tolist()]
        owner = np.repeat(np.arange(len(numbers)), parts)
        ranges, is_part = batch.ranges[owner].copy(), np.repeat(spans, parts)
        first = np.append(True, owner[1:] != owner[:-1])
        begins = [start for number in numbers[spans].tolist() for start in starts[number]]
        ranges["start"][is_part] = np.array(begins, np.uint64)
        inner = np.flatnonzero(is_part & ~first)
        ranges["end"][inner - 1] = ranges["start"][inner]
        ranges["flags"][inner] &= ~_BEFORE
        ranges["cycles"][inner] = 0
        own = numbers[owner]
        own[is_part] = self._known.numbers(batch._replace(ranges=ranges[is_part]))
        self._learn()
        return batch._replace(ranges=ranges), own, keep[owner]

    def _starts(self, number: int) -> list[int]:
        if number not in self._parts:
            start, end, program, _, _ = self._known.table[number].tolist()
            inner = self._known.kernels.programs[program].starts_within(start + 4, end)
            self._parts[number] = [start, *(vaddr for vaddr in inner if not vaddr % 4)]
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
            fresh[own] = program.place_starts(new["start"]) != program.place_starts(new["end"] - np.uint64(4))
        self._spans = np.concatenate([self._spans, fresh])
