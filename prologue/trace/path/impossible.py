"""The first impossible step of each CPU since the trace last had an address."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prologue.arrays import I64
from prologue.trace.path.steps import Sequence
from prologue.trace.ranges import GAP, Batch
from prologue.trace.readers.intern import run_starts


class Instant(NamedTuple):
    """A time (ns) on a CPU."""

    time: int
    cpu: int


class FirstImpossible:
    """The first impossible step or range of each stretch of a lane, which is from one gap to the next.

    ``steps`` and ``ranges`` have the instant at which each distinct step, and each distinct range that cannot be run
    through, was the first of a stretch for the first time.
    """

    def __init__(self, *, every: bool) -> None:
        """Start without steps. ``every``: each impossible step counts as a first one."""
        self._every = every
        self._astray: set[int] = set()  # lanes with an impossible step since their last gap
        self.steps: dict[int, Instant] = {}
        self.ranges: dict[int, Instant] = {}

    def take(self, batch: Batch, sequence: Sequence, places: I64, steps: I64, inside: I64) -> None:
        """Take a batch: impossible ``steps`` lead to ``places`` of the sequence; ranges ``inside`` run through a stop.

        ``places`` and ``inside`` are ascending.
        """
        count = len(sequence.lane)
        if not count or not (len(places) or len(inside) or self._astray):
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
        of_event = stretch[events >> 1]
        first, astray = run_starts(of_event), np.zeros(int(stretch[-1]) + 1, np.bool_)
        astray[of_event] = True
        ends = np.append(sequence.heads[1:], count) - 1
        for head, end in zip(sequence.heads.tolist(), ends.tolist(), strict=True):
            lane = int(sequence.lane[head])
            if lane in self._astray and not gaps[head]:  # the stretch before goes on
                first[of_event == stretch[head]] = False
                astray[stretch[head]] = True
            (self._astray.add if astray[stretch[end]] else self._astray.discard)(lane)
        for instants, parity in ((self.steps, 0), (self.ranges, 1)):
            kept = first & (events & 1 == parity)
            self._keep(instants, batch, sequence, events[kept] >> 1, numbers[kept])

    @staticmethod
    def _keep(instants: dict[int, Instant], batch: Batch, sequence: Sequence, places: I64, numbers: I64) -> None:
        """Keep the first instant of each number."""
        rows = sequence.rows[places]
        order = np.argsort(rows, kind="stable")
        distinct, at = np.unique(numbers[order], return_index=True)
        columns = (batch.ranges[name][rows[order][at]].tolist() for name in ("time", "cpu"))
        for number, time, cpu in zip(distinct.tolist(), *columns, strict=True):
            instants.setdefault(number, Instant(time, cpu))
