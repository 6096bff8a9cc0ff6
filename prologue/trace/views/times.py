"""Times and cycles of functions, as far as a trace has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.steps import lanes
from prologue.trace.ranges import GAP, UNKNOWN_CYCLES, Batch, count_instructions
from prologue.trace.views.split import SymbolSplit

_NEVER = np.uint64((1 << 64) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeUse:
    """ns and cycles in a function, without its callees; its first and last time (ns of the trace's clock).

    ``last`` is 0 if it has no times; ``cycles`` is None if the trace counts none.
    """

    ns: float
    first: int
    last: int
    cycles: float | None


class _Shares:
    """Amounts between two marks of a CPU, divided among the ranges between them by instructions."""

    def __init__(self) -> None:
        self.amounts = np.zeros(0, np.float64)  # of each distinct range
        self._open: dict[int, tuple[I64, npt.NDArray[np.float64]]] = {}  # ranges and instructions since the last mark

    def add(self, lane: int, numbers: I64, sizes: npt.NDArray[np.float64], marks: npt.NDArray[np.float64]) -> None:
        """Add ranges of a CPU; shapes (n,).

        ``numbers`` are -1 for ranges whose share counts nowhere, ``sizes`` their instructions. ``marks`` are NaN, or
        the amount from the mark before to the beginning of the range: 0 if that is not known.
        """
        waiting = self._open.get(lane, (np.zeros(0, np.int64), np.zeros(0)))
        heads = np.flatnonzero(~np.isnan(marks))
        amounts = marks[heads]
        heads += len(waiting[0])
        numbers, sizes = np.append(waiting[0], numbers), np.append(waiting[1], sizes)
        bounds = np.append(0, heads)
        sums = np.diff(np.append(0.0, np.cumsum(sizes))[bounds])
        rates = np.divide(amounts, sums, out=np.zeros(len(heads)), where=sums > 0)
        last = int(bounds[-1])
        shares = np.repeat(rates, np.diff(bounds)) * sizes[:last]
        kept = numbers[:last] >= 0
        self.amounts += np.bincount(numbers[:last][kept], shares[kept], len(self.amounts))
        # By distinct range: a clock that stands still must not fill memory.
        distinct, inverse = np.unique(numbers[last:], return_inverse=True)
        self._open[lane] = distinct, np.bincount(inverse, sizes[last:], len(distinct)).astype(np.float64)


class FunctionTimes:
    """The time and the cycles of each function, without its callees.

    A range has the last timestamp before it, and trace units write these, and counts of cycles, only now and then.
    What lies over a gap is of no function, and neither is time that goes back.
    """

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._split = SymbolSplit(known)
        self._ns, self._cycles = _Shares(), _Shares()
        self._first, self._last = np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        # The time of each CPU's last range, and whether it is that of a range before a gap.
        self._last_times: dict[int, tuple[int, bool]] = {}
        self.has_times = self.has_cycles = False

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """Add a batch; ranges that are not kept take their time, too, but do not count."""
        batch, numbers, keep = self._split.take(batch, numbers, keep)
        self._grow()
        ranges, row_lanes = batch.ranges, lanes(batch.ranges)
        timed = keep & (ranges["time"] != 0)
        np.minimum.at(self._first, numbers[timed], ranges["time"][timed])
        np.maximum.at(self._last, numbers[timed], ranges["time"][timed])
        self.has_times |= bool(ranges["time"].any())
        self.has_cycles |= bool(ranges["cycles"].any())
        sizes = count_instructions(ranges).astype(np.float64)
        for lane in np.unique(row_lanes).tolist():
            rows = np.flatnonzero(row_lanes == lane)
            kept = np.where(keep[rows], numbers[rows], -1)
            self._ns.add(lane, kept, sizes[rows], self._time_marks(lane, ranges[rows]))
            cycles, gap = ranges["cycles"][rows], ranges["flags"][rows] & np.uint8(GAP) != 0
            marks = np.where(cycles != 0, cycles.astype(np.float64), np.nan)
            marks[gap | (cycles == UNKNOWN_CYCLES)] = 0
            self._cycles.add(lane, kept, sizes[rows], marks)

    def _time_marks(self, lane: int, ranges: npt.NDArray[np.void]) -> npt.NDArray[np.float64]:
        """Return the ns since the time before, at each range that has another time than the one before it."""
        time, gap = ranges["time"], ranges["flags"] & np.uint8(GAP) != 0
        last, was_stale = self._last_times.get(lane, (0, False))
        before = np.append(np.uint64(last), time[:-1])
        is_mark = gap | (time != before)
        # A range after a gap has the time of a range before it, until the clock is read again.
        mark = np.maximum.accumulate(np.where(is_mark, np.arange(1, len(time) + 1), 0))
        stale = np.append(was_stale, gap & (time == before))[mark]
        self._last_times[lane] = int(time[-1]), bool(stale[-1])
        known = ~gap & (before != 0) & (time > before) & ~np.append(was_stale, stale[:-1])
        marks = np.where(is_mark, 0.0, np.nan)
        marks[known] = time[known] - before[known]
        return marks

    def by_function(self, rows: Sequence[int], shifts: Sequence[int] = (0,)) -> dict[int, TimeUse]:
        """Return the use of each function that has a time or cycles, by address of its symbol.

        ``rows`` are those of a program's places, ``shifts`` the bytes from each to the place whose addresses are meant.
        """
        self._grow()
        table, places, chosen = self._known.table, list[U64](), list[I64]()
        used = (self._last != 0) | (self._cycles.amounts > 0)
        for row, shift in zip(rows, shifts, strict=True):
            in_text = np.flatnonzero((table["program"] == row) & (table["piece"] >= 0) & used)
            starts = self._known.kernels.programs[row].place_starts(table["start"][in_text])
            places.append(np.where(starts != 0, starts + np.uint64(shift), starts))
            chosen.append(in_text)
        return dict(self._uses(np.concatenate(places), np.concatenate(chosen)))

    def _uses(self, places: U64, rows: I64) -> Iterator[tuple[int, TimeUse]]:
        functions, inverse = np.unique(places, return_inverse=True)
        ns, cycles = (np.bincount(inverse, shares.amounts[rows], len(functions)) for shares in (self._ns, self._cycles))
        first, last = np.full(len(functions), _NEVER), np.zeros(len(functions), np.uint64)
        np.minimum.at(first, inverse, self._first[rows])
        np.maximum.at(last, inverse, self._last[rows])
        columns = (functions, ns, first, last, cycles)
        for place, spent, begin, end, counted in zip(*(column.tolist() for column in columns), strict=True):
            yield place, TimeUse(ns=spent, first=begin, last=end, cycles=counted if self.has_cycles else None)

    def _grow(self) -> None:
        new = len(self._known.table) - len(self._first)
        if new:
            for shares in (self._ns, self._cycles):
                shares.amounts = np.append(shares.amounts, np.zeros(new))
            self._first = np.append(self._first, np.full(new, _NEVER))
            self._last = np.append(self._last, np.zeros(new, np.uint64))
