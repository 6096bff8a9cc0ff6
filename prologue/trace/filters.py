"""What of a trace is looked at."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from prologue.arrays import I64, Bool
from prologue.trace.form import SAMPLE, Batch
from prologue.trace.known import KnownRanges


def kept(batch: Batch, numbers: I64, keep: Bool) -> tuple[Batch, I64]:
    """The ranges that pass, and their numbers."""
    if keep.all():
        return batch, numbers
    return batch._replace(ranges=batch.ranges[keep]), numbers[keep]


class Filters(NamedTuple):
    """Symbols as (row of the program, address); CPUs; from and to in ns; exception levels. Empty ones let all pass.

    ``samples`` false leaves sampled instructions out: beside ranges they would be counted twice.
    """

    places: tuple[tuple[int, int], ...] = ()
    cpus: frozenset[int] = frozenset()
    times: tuple[int, int] | None = None
    levels: frozenset[int] = frozenset()
    samples: bool = True

    def mask(self, batch: Batch, numbers: I64, known: KnownRanges) -> Bool:
        """Which ranges pass; shape (n,)."""
        ranges = batch.ranges
        keep = np.ones(len(ranges), np.bool_)
        if not self.samples:
            keep &= ranges["flags"] & np.uint8(SAMPLE) == 0
        if self.cpus:
            keep &= np.isin(ranges["cpu"], list(self.cpus))
        if self.levels:
            keep &= np.isin(ranges["level"], list(self.levels))
        if self.times is not None:
            keep &= (ranges["time"] >= np.uint64(self.times[0])) & (ranges["time"] <= np.uint64(self.times[1]))
        if self.places:
            keep &= self._touching(known)[numbers]
        return keep

    def _touching(self, known: KnownRanges) -> Bool:
        """Which distinct ranges have an instruction of one of the symbols."""
        table: Any = known.table
        found = np.zeros(len(table), np.bool_)
        for row, place in self.places:
            program = known.kernels.programs[row]
            mine = np.flatnonzero((table["program"] == row) & (table["piece"] >= 0))
            # A range may go on into the next function; the last symbol at or before its end decides, and all between.
            first, last = (
                program.place_starts(table[name][mine] - np.uint64(back)) for name, back in (("start", 0), ("end", 4))
            )
            found[mine] |= (first <= np.uint64(place)) & (np.uint64(place) <= last)
        return found
