"""When a range ran: between the times around its own, for clocks are read now and then; and what came after it.

Both need the ranges that follow on the same CPU, so ranges are held back until these are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool
from prologue.trace.path.steps import lanes
from prologue.trace.ranges import GAP, SAMPLE, Batch, TraceRanges, new_ranges
from prologue.trace.readers.intern import by_lane

_MOST: Final = 1 << 19  # ranges that are held back: a trace whose clock stands still must not fill memory
UNBOUNDED: Final = 1 << 62
"""The latest time of a range after which no other time of its CPU was seen."""
_SAMPLES: Final = 1 << 60  # added to the lane of samples, which are no part of the flow


class Instants(NamedTuple):
    """For each range of a batch: no earlier and no later than these times (ns), and where its CPU went on.

    ``earliest`` is 0 where no earlier time is known, and ``latest`` is ``UNBOUNDED`` where no later one is. ``onward``
    is 0 where that is not known; ``flags`` are those of the range there.
    """

    earliest: U64
    latest: U64
    onward: U64
    flags: npt.NDArray[np.uint8]

    def rows(self, which: Bool) -> Instants:
        """Some of them."""
        return Instants(self.earliest[which], self.latest[which], self.onward[which], self.flags[which])


def settled(batches: Iterator[Batch]) -> Iterator[tuple[Batch, Instants]]:
    """The same ranges with their instants; each CPU's order stays, that of CPUs may change a little."""
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
        found, keep = self._look(ranges)
        # More of the same time may follow ranges that are given away early: these are no older than the time before it.
        times = np.where(keep, ranges["time"], found.earliest)
        if last or len(ranges) - int(keep.sum()) > _MOST:
            # No later time of their CPUs was seen: how long after their own times these ran is not known.
            found = found._replace(latest=np.where(keep, found.latest, np.uint64(UNBOUNDED)))
            keep[:] = True
        self._held = ranges[~keep]
        kept, times = ranges[keep], times[keep]
        own = _lanes(kept)
        for lane in np.unique(own).tolist():
            self._times[lane] = int(times[np.flatnonzero(own == lane)[-1]])
        return batch._replace(ranges=kept), found.rows(keep)

    def _look(self, ranges: TraceRanges) -> tuple[Instants, Bool]:
        """What is known of each range, and whether all is."""
        own = _lanes(ranges)
        order = by_lane(own)
        order = np.arange(len(own)) if order is None else order
        lane, time = own[order], ranges["time"][order]
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
        # Where times go back, another trace begins, or a decoder guessed them: those over there bound nothing here.
        low = np.where(before > time[first], np.uint64(0), before)
        high = np.where(after < time[first], np.uint64(UNBOUNDED), after)
        known = Instants(low[run][back], high[run][back], onward[back], flags[back])
        return known, followed[run][back]


def _lanes(ranges: TraceRanges) -> I64:
    samples = ranges["flags"] & np.uint8(SAMPLE) != 0
    return np.where(samples, lanes(ranges) + _SAMPLES, lanes(ranges))


def _onward(ranges: TraceRanges, order: I64, heads: Bool) -> tuple[U64, npt.NDArray[np.uint8]]:
    """Where each range's lane went on and the flags there, in that order; 0 where it is not known."""
    onward, flags = np.zeros(len(order), np.uint64), np.zeros(len(order), np.uint8)
    start, flag = ranges["start"][order], ranges["flags"][order]
    known = ~heads[1:] & (flag[1:] & np.uint8(GAP | SAMPLE) == 0)
    onward[:-1][known] = start[1:][known]
    flags[:-1][known] = flag[1:][known]
    return onward, flags
