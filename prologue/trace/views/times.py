"""Times of functions, as far as a trace has times: ns in each, first and last time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.steps import lanes
from prologue.trace.ranges import GAP, Batch, count_instructions
from prologue.trace.views.split import SymbolSplit

_NEVER = np.uint64((1 << 64) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeUse:
    """ns in a function, without its callees; its first and last time (ns of the trace's clock)."""

    ns: float
    first: int
    last: int


class FunctionTimes:
    """The time of each function: the time between two timestamps of a CPU, divided among ranges by instructions.

    A range has the last timestamp before it, and units write these only now and then. Time over a gap is of no
    function, and neither is time that goes back.
    """

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._split = SymbolSplit(known)
        self._ns = np.zeros(0, np.float64)  # of each distinct range
        self._first, self._last = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        self._open: dict[int, tuple[int, I64, npt.NDArray[np.float64]]] = {}  # time, ranges and instructions since it

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """Add a batch; ranges that are not kept take their time, too, but do not count."""
        batch, numbers, keep = self._split.take(batch, numbers, keep)
        self._grow()
        ranges, lane = batch.ranges, lanes(batch.ranges)
        timed = keep & (ranges["time"] != 0)
        np.minimum.at(self._first, numbers[timed], ranges["time"][timed])
        np.maximum.at(self._last, numbers[timed], ranges["time"][timed])
        sizes = count_instructions(ranges).astype(np.float64)
        for own in np.unique(lane).tolist():
            rows = np.flatnonzero(lane == own)
            self._lane(own, ranges[rows], np.where(keep[rows], numbers[rows], -1), sizes[rows])

    def _lane(self, own: int, ranges: npt.NDArray[np.void], numbers: I64, sizes: npt.NDArray[np.float64]) -> None:
        time, gap = ranges["time"], ranges["flags"] & np.uint8(GAP) != 0
        fresh = gap.copy()  # the first range of an interval
        fresh[1:] |= time[1:] != time[:-1]
        before = self._open.get(own)
        fresh[0] |= before is None or before[0] != time[0]
        heads = np.flatnonzero(fresh)
        stops = np.append(heads[1:], len(time))
        if before is not None:
            first = int(heads[0]) if len(heads) else len(time)
            waiting, insns = np.append(before[1], numbers[:first]), np.append(before[2], sizes[:first])
            if not len(heads):
                self._open[own] = before[0], *_sum_up(waiting, insns)
                return
            if not gap[first]:
                self._spend(waiting, insns, int(time[first]) - before[0], before[0])
        rate = np.zeros(len(heads))
        begins = time[heads].astype(np.float64)
        sums = np.add.reduceat(sizes, heads)
        known = (time[heads[:-1]] != 0) & (time[heads[1:]] > time[heads[:-1]]) & ~gap[heads[1:]] & (sums[:-1] > 0)
        rate[:-1][known] = np.diff(begins)[known] / sums[:-1][known]
        shares = np.repeat(rate, stops - heads) * sizes[heads[0] :]
        own_rows = numbers[heads[0] :] >= 0
        np.add.at(self._ns, numbers[heads[0] :][own_rows], shares[own_rows])
        last = int(heads[-1])
        self._open[own] = int(time[last]), *_sum_up(numbers[last:], sizes[last:])

    def _spend(self, numbers: I64, sizes: npt.NDArray[np.float64], ns: int, since: int) -> None:
        total = sizes.sum()
        if since and ns > 0 and total:
            kept = numbers >= 0
            np.add.at(self._ns, numbers[kept], ns * sizes[kept] / total)

    def by_function(self, rows: Sequence[int], shifts: Sequence[int] = (0,)) -> dict[int, TimeUse]:
        """Return the use of each function that has a time, by address of its symbol.

        ``rows`` are those of a program's places, ``shifts`` the bytes from each to the place whose addresses are meant.
        """
        self._grow()
        table, places, chosen = self._known.table, list[U64](), list[I64]()
        for row, shift in zip(rows, shifts, strict=True):
            own = np.flatnonzero((table["program"] == row) & (table["piece"] >= 0) & (self._last != 0))
            starts = self._known.kernels.programs[row].place_starts(table["start"][own])
            places.append(np.where(starts != 0, starts + np.uint64(shift), starts))
            chosen.append(own)
        return dict(self._uses(np.concatenate(places), np.concatenate(chosen)))

    def _uses(self, places: U64, own: I64) -> Iterator[tuple[int, TimeUse]]:
        functions, inverse = np.unique(places, return_inverse=True)
        ns = np.bincount(inverse, self._ns[own], len(functions))
        first, last = np.full(len(functions), _NEVER), np.zeros(len(functions), np.uint64)
        np.minimum.at(first, inverse, self._first[own])
        np.maximum.at(last, inverse, self._last[own])
        columns = (functions, ns, first, last)
        for place, spent, begin, end in zip(*(column.tolist() for column in columns), strict=True):
            yield place, TimeUse(ns=spent, first=begin, last=end)

    def _grow(self) -> None:
        new = len(self._known.table) - len(self._ns)
        if new:
            self._ns = np.append(self._ns, np.zeros(new))
            self._first = np.append(self._first, np.full(new, _NEVER))
            self._last = np.append(self._last, np.zeros(new, np.uint64))


def _sum_up(numbers: I64, sizes: npt.NDArray[np.float64]) -> tuple[I64, npt.NDArray[np.float64]]:
    """Add up instructions by distinct range: a clock that stands still must not fill memory."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    return distinct, np.bincount(inverse, sizes, len(distinct)).astype(np.float64)
