"""Instants of ranges: a range ran between the times around its own, as clocks are read now and then.

An instant also has where the CPU went on. It needs the next ranges of the same CPU, so ranges are held back until these
are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool
from prologue.trace.path.steps import lanes
from prologue.trace.ranges import GAP, Batch, TraceRanges, new_ranges
from prologue.trace.readers.intern import by_lane

_MOST: Final = 1 << 19  # ranges that are held back: a trace whose clock stands still must not fill memory
UNBOUNDED: Final = 1 << 62
"""The latest time of a range after which no other time of its CPU was seen."""


class Instants(NamedTuple):
    """The bounds of each range of a batch, in ns, and where its CPU went on; shape (n,).

    ``earliest`` is 0 if no earlier time is known, and ``latest`` is ``UNBOUNDED`` if no later time is. ``onward`` is 0
    if it is not known; ``flags`` are those of the range there.
    """

    earliest: U64
    latest: U64
    onward: U64
    flags: npt.NDArray[np.uint8]

    def rows(self, chosen: Bool) -> Instants:
        """Return the instants of chosen rows."""
        return Instants(self.earliest[chosen], self.latest[chosen], self.onward[chosen], self.flags[chosen])


def settled(batches: Iterator[Batch]) -> Iterator[tuple[Batch, Instants]]:
    """Yield the same ranges with their instants; each CPU's order stays, but not the order among CPUs."""
    holder, batch = _Holder(), None
    for batch in batches:
        yield holder.take(batch)
    if batch is not None:
        yield holder.take(batch._replace(ranges=new_ranges(0)), last=True)


class _Holder:
    def __init__(self) -> None:
        self._held: TraceRanges = new_ranges(0)
        self._times: dict[int, int] = {}  # before the next ranges of each lane

    def take(self, batch: Batch, *, last: bool = False) -> tuple[Batch, Instants]:
        ranges = np.concatenate([self._held, batch.ranges])
        instants, keep = self._find_instants(ranges)
        # Ranges that leave early may be followed by more of the same time, no older than the time before it.
        times = np.where(keep, ranges["time"], instants.earliest)
        if last or len(ranges) - int(keep.sum()) > _MOST:
            # No later time of their CPUs was seen, so they may have run any time after their own times.
            instants = instants._replace(latest=np.where(keep, instants.latest, np.uint64(UNBOUNDED)))
            keep[:] = True
        self._held = ranges[~keep]
        kept, times = ranges[keep], times[keep]
        kept_lanes = lanes(kept)
        for lane in np.unique(kept_lanes).tolist():
            self._times[lane] = int(times[np.flatnonzero(kept_lanes == lane)[-1]])
        return batch._replace(ranges=kept), instants.rows(keep)

    def _find_instants(self, ranges: TraceRanges) -> tuple[Instants, Bool]:
        """Find the instant of each range, and whether it is final."""
        row_lanes = lanes(ranges)
        order = by_lane(row_lanes)
        lane, time = row_lanes[order], ranges["time"][order]
        starts = np.ones(len(order), np.bool_)  # of a lane, and of ranges of one time in it
        heads = starts.copy()
        heads[1:] = lane[1:] != lane[:-1]
        starts[1:] = heads[1:] | (time[1:] != time[:-1])
        run = np.cumsum(starts) - 1
        first = np.flatnonzero(starts)
        before, after = np.zeros(len(first), np.uint64), time[first].copy()  # of each run of one time: those around it
        inner = ~heads[first]
        before[inner] = time[first[inner] - 1]
        for k in np.flatnonzero(~inner).tolist():
            before[k] = self._times.get(int(lane[first[k]]), 0)
        followed = np.zeros(len(first), np.bool_)
        followed[:-1] = inner[1:]
        after[:-1][followed[:-1]] = time[first[1:]][followed[:-1]]
        back: I64 = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        onward, flags = _onward(ranges, order, heads)
        # If times go back, another trace begins, or a decoder guessed them: times beyond that are no bounds.
        low = np.where(before > time[first], np.uint64(0), before)
        high = np.where(after < time[first], np.uint64(UNBOUNDED), after)
        known = Instants(low[run][back], high[run][back], onward[back], flags[back])
        return known, followed[run][back]


def _onward(ranges: TraceRanges, order: I64, heads: Bool) -> tuple[U64, npt.NDArray[np.uint8]]:
    """Return where each range's lane went on, and the flags there, in the order of ``order``; 0 if not known."""
    onward, flags = np.zeros(len(order), np.uint64), np.zeros(len(order), np.uint8)
    start, flag = ranges["start"][order], ranges["flags"][order]
    known = ~heads[1:] & (flag[1:] & np.uint8(GAP) == 0)
    onward[:-1][known] = start[1:][known]
    flags[:-1][known] = flag[1:][known]
    return onward, flags
