"""Filters, which choose the ranges of a trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from prologue.arrays import I64, Bool
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.steps import lanes
from prologue.trace.ranges import GAP, Batch, TracedTask
from prologue.trace.readers.intern import by_lane, run_starts


class Selection:
    """The ranges that pass; a gap before a range that does not pass is put before the next one of its lane."""

    def __init__(self, *, apart: bool = False) -> None:
        """Start without gaps. ``apart``: a range that does not pass is a gap, too: no step leads over it."""
        self._apart = apart
        self._lost: set[int] = set()  # lanes with a gap since their last range that passed

    def take(self, batch: Batch, numbers: I64, keep: Bool) -> tuple[Batch, I64]:
        """Return the ranges of a batch that pass, and their numbers; batches come in the order of the trace."""
        gaps = batch.ranges["flags"] & np.uint8(GAP) != 0
        if (keep.all() and not self._lost) or not len(keep):
            return batch, numbers
        ranges = batch.ranges
        if self._apart:
            gaps |= ~keep
        if self._lost or (gaps & ~keep).any():
            ranges = ranges.copy()
            ranges["flags"][self._after_gaps(lanes(ranges), gaps, keep)] |= np.uint8(GAP)
        return batch._replace(ranges=ranges[keep]), numbers[keep]

    def _after_gaps(self, lane: I64, gaps: Bool, keep: Bool) -> I64:
        """Return rows that pass and have a gap between them and the last row of their lane that passes."""
        order = by_lane(lane)
        sorted_lane, passes = lane[order], np.flatnonzero(keep[order])
        heads = np.flatnonzero(run_starts(sorted_lane))
        carried = heads[[number in self._lost for number in sorted_lane[heads].tolist()]]
        places = np.append(np.flatnonzero(gaps[order]), carried)
        # The first range at or after each gap that passes, if it is of the same lane.
        after = np.searchsorted(passes, places)
        followed = np.flatnonzero(after < len(passes))
        followed = followed[sorted_lane[passes[after[followed]]] == sorted_lane[places[followed]]]
        self._lost.difference_update(sorted_lane[carried].tolist())
        self._lost.update(np.delete(sorted_lane[places], followed).tolist())
        rows: I64 = order[passes[after[followed]]]
        return rows


@dataclass(slots=True, kw_only=True)
class TraceExtent:
    """The extent of a trace in what filters ask for: CPUs, levels, tasks, first and last time (ns; 0: none).

    ``timely``: a range is of the wanted times. ``passed``: a range passed all filters.
    """

    cpus: set[int] = field(default_factory=set)
    levels: set[int] = field(default_factory=set)
    tasks: set[TracedTask] = field(default_factory=set)
    first: int = 0
    last: int = 0
    timely: bool = False
    passed: bool = False

    def look(self, batch: Batch, filters: Filters, keep: Bool) -> None:
        """Add a batch, and whether each of its ranges passes; only columns that a filter asks for are read."""
        ranges = batch.ranges
        self.passed |= bool(keep.any())
        if filters.cpus:
            self.cpus.update(np.unique(ranges["cpu"]).tolist())
        if filters.levels:
            self.levels.update(np.unique(ranges["level"]).tolist())
        if filters.pids or filters.comms:
            self.tasks.update(batch.tasks[row] for row in np.unique(ranges["task"]).tolist())
        times = ranges["time"][ranges["time"] != 0] if filters.times is not None else ranges["time"][:0]
        if filters.times is not None and len(times):
            self.first = min(self.first or int(times.min()), int(times.min()))
            self.last = max(self.last, int(times.max()))
            low, high = (np.uint64(time) for time in filters.times)
            self.timely |= bool(((times >= low) & (times <= high)).any())


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The conditions of ranges that pass; an empty condition lets all pass.

    ``places`` are symbols as (row of the program, address); ``times`` from and to in ns; ``levels`` exception levels.
    ``pids`` are numbers of tasks or of their processes, ``comms`` their names.
    """

    places: tuple[tuple[int, int], ...] = ()
    cpus: frozenset[int] = frozenset()
    times: tuple[int, int] | None = None
    levels: frozenset[int] = frozenset()
    pids: frozenset[int] = frozenset()
    comms: frozenset[str] = frozenset()
    extent: TraceExtent = field(default_factory=TraceExtent, compare=False)

    def mask(self, batch: Batch, numbers: I64, known: KnownRanges) -> Bool:
        """Return which ranges pass; shape (n,)."""
        ranges = batch.ranges
        keep = np.ones(len(ranges), np.bool_)
        if self.cpus:
            keep &= np.isin(ranges["cpu"], list(self.cpus))
        if self.levels:
            keep &= np.isin(ranges["level"], list(self.levels))
        if self.pids:
            of_pid = [task.pid in self.pids or task.tid in self.pids for task in batch.tasks]
            keep &= np.array(of_pid, np.bool_)[ranges["task"]]
        if self.comms:
            keep &= np.array([task.comm in self.comms for task in batch.tasks], np.bool_)[ranges["task"]]
        if self.times is not None:
            keep &= (ranges["time"] >= np.uint64(self.times[0])) & (ranges["time"] <= np.uint64(self.times[1]))
            keep &= ranges["time"] != 0  # 0: no time
        if self.places:
            keep &= self.touching(known, self.places)[numbers]
        self.extent.look(batch, self, keep)
        return keep

    @staticmethod
    def touching(known: KnownRanges, places: tuple[tuple[int, int], ...]) -> Bool:
        """Return which distinct ranges have an instruction of one of the symbols."""
        table: Any = known.table
        touching = np.zeros(len(table), np.bool_)
        for row, place in places:
            program = known.kernels.programs[row]
            in_text = np.flatnonzero((table["program"] == row) & (table["piece"] >= 0))
            starts, ends = program.extents(place)
            ended = np.searchsorted(ends, table["start"][in_text], side="right")  # a range may run into other functions
            touching[in_text] |= ended < np.searchsorted(starts, table["end"][in_text])
        return touching
