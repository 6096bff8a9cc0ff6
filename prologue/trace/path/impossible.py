"""The first impossible step of each CPU since the trace last had an address."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np

from prologue.arrays import I64, Bool
from prologue.trace.path.steps import Sequence
from prologue.trace.path.verdicts import RangeVerdicts
from prologue.trace.ranges import GAP, Batch
from prologue.trace.readers.intern import run_starts


class Instant(NamedTuple):
    """A time (ns) on a CPU."""

    time: int
    cpu: int


class _Stretch(NamedTuple):
    """A lane since its last gap: whether it is astray, and the last range with an ignored branch (-1: none)."""

    astray: bool = False
    ignored: int = -1


class FirstImpossible:
    """The first impossible step or range of each stretch of a lane, which is from one gap to the next.

    ``steps`` and ``ranges`` have the instant at which each distinct step, and each distinct range that cannot be run
    through, was the first of a stretch for the first time. If a branch that the decoder may not know comes before it in
    the stretch, ``ignored`` has the range with that branch instead, and ``blamed`` the number of such cases.
    """

    def __init__(self, verdicts: RangeVerdicts, *, every: bool) -> None:
        """Start without steps. ``every``: each impossible step counts as a first one."""
        self._verdicts = verdicts
        self._every = every
        self._open: dict[int, _Stretch] = {}
        self.steps: dict[int, Instant] = {}
        self.ranges: dict[int, Instant] = {}
        self.ignored: dict[int, Instant] = {}
        self.blamed: Counter[int] = Counter()

    def take(self, batch: Batch, sequence: Sequence, places: I64, steps: I64, inside: I64) -> None:
        """Take a batch: impossible ``steps`` lead to ``places`` of the sequence; ranges ``inside`` run through a stop.

        ``places`` and ``inside`` are ascending.
        """
        if not len(places) and not len(inside) and not self._open and not self._verdicts.any_ignored:
            return
        if self._every:
            self._keep(self.steps, batch, sequence, places, steps)
            self._keep(self.ranges, batch, sequence, inside, sequence.numbers[inside])
            return
        gaps = sequence.flags & np.uint8(GAP) != 0
        starts = gaps.copy()
        starts[sequence.heads] = True
        stretch = np.cumsum(starts) - 1
        # A step comes before the range that it leads to.
        events = np.concatenate([2 * places, 2 * inside + 1])
        numbers = np.concatenate([steps, sequence.numbers[inside]])
        order = np.argsort(events, kind="stable")
        events, numbers = events[order], numbers[order]
        first = run_starts(stretch[events >> 1])
        for head in sequence.heads[~gaps[sequence.heads]].tolist():
            if self._open.get(int(sequence.lane[head]), _Stretch()).astray:
                first[stretch[events >> 1] == stretch[head]] = False
        before, up_to = self._find_ignored(sequence, stretch, gaps)
        self._carry(sequence, stretch, gaps, events >> 1, up_to)
        events, numbers = events[first], numbers[first]
        blamed = np.where(events & 1, up_to[events >> 1], before[events >> 1])
        is_blamed = blamed >= 0
        self.blamed.update(blamed[is_blamed].tolist())
        self._keep(self.ignored, batch, sequence, events[is_blamed] >> 1, blamed[is_blamed])
        for own, parity in ((self.steps, 0), (self.ranges, 1)):
            kept = (events & 1 == parity) & ~is_blamed
            self._keep(own, batch, sequence, events[kept] >> 1, numbers[kept])

    @staticmethod
    def _keep(own: dict[int, Instant], batch: Batch, sequence: Sequence, places: I64, numbers: I64) -> None:
        """Keep the first instant of each number."""
        rows = sequence.row(places)
        order = np.argsort(rows, kind="stable")
        distinct, at = np.unique(numbers[order], return_index=True)
        columns = (batch.ranges[name][rows[order][at]].tolist() for name in ("time", "cpu"))
        for number, time, cpu in zip(distinct.tolist(), *columns, strict=True):
            own.setdefault(number, Instant(time, cpu))

    def _find_ignored(self, sequence: Sequence, stretch: I64, gaps: Bool) -> tuple[I64, I64]:
        """Find the last range with an ignored branch in each place's stretch, before it and up to it; -1 if none."""
        none = np.full(len(stretch), -1, np.int64)
        if not self._verdicts.any_ignored or not len(stretch):
            return none, none
        own = np.where(self._verdicts.ignored[sequence.numbers] != 0, sequence.numbers, -1)
        carried = sequence.heads[~gaps[sequence.heads]]
        at_head = np.array([self._open.get(lane, _Stretch()).ignored for lane in sequence.lane[carried].tolist()])
        head = own.copy()
        head[carried] = np.where(own[carried] < 0, at_head, own[carried])
        last = np.maximum.accumulate(np.where(head >= 0, np.arange(len(head)), -1))
        up_to = np.where((last >= 0) & (stretch[last] == stretch), head[last], -1)
        before = none.copy()
        before[1:] = np.where(stretch[1:] == stretch[:-1], up_to[:-1], -1)
        before[carried] = at_head
        return before, up_to

    def _carry(self, sequence: Sequence, stretch: I64, gaps: Bool, events: I64, ignored: I64) -> None:
        """Keep the state of the open stretch of each lane for the next batch."""
        astray = np.zeros(int(stretch[-1]) + 1 if len(stretch) else 0, np.bool_)
        astray[stretch[events]] = True
        ends = np.append(sequence.heads[1:] - 1, len(sequence.lane) - 1) if len(sequence.lane) else sequence.heads
        for head, end in zip(sequence.heads.tolist(), ends.tolist(), strict=True):
            lane = int(sequence.lane[head])
            before = self._open.pop(lane, _Stretch())
            whole = not gaps[head] and stretch[head] == stretch[end]  # the stretch that was open is open still
            now = _Stretch(
                bool(astray[stretch[end]]) or (whole and before.astray),
                int(ignored[end]),
            )
            if now != _Stretch():
                self._open[lane] = now
