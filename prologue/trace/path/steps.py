"""Steps, from one range to the next of the same CPU: each distinct step is met often and judged once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64
from prologue.trace.ranges import EXCEPTION, GAP, RETURN, TraceRanges
from prologue.trace.readers.intern import DistinctRows, by_lane

STEP: Final = np.dtype(
    [
        ("before", "<i8"),  # numbers of the distinct ranges before and after the step
        ("after", "<i8"),
        ("flags", "u1"),  # EXCEPTION or RETURN, if the input says so
    ],
    align=True,
)


class Taken(NamedTuple):
    """The steps of a batch: the row that each leads to, and its number; shape (m,). Not every row has a step."""

    rows: I64
    numbers: I64


def lanes(ranges: TraceRanges) -> I64:
    """Return the lane of each range, its CPU; shape (n,). A lane is one sequence."""
    lane: I64 = ranges["cpu"].astype(np.int64)
    return lane


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence:
    """The ranges of a batch lane after lane; shape (n,).

    ``rows`` are their rows in the batch; ``before`` is the number of the range before
    each in its lane, or -1; ``heads`` are the places where lanes begin.
    """

    rows: I64
    lane: I64
    before: I64
    numbers: I64
    flags: npt.NDArray[np.uint8]
    heads: I64


class Sequences:
    """The sequences of a trace, batch by batch."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def take(self, ranges: TraceRanges, numbers: I64) -> Sequence:
        """Return the sequence of a batch; ``numbers`` are those of the distinct ranges."""
        row_lanes = lanes(ranges)
        order = by_lane(row_lanes)
        lane, ordered, flags = row_lanes[order], numbers[order], ranges["flags"][order]
        before = np.full(len(lane), -1, np.int64)
        before[1:] = np.where(lane[1:] == lane[:-1], ordered[:-1], -1)
        heads = np.flatnonzero(np.append(True, lane[1:] != lane[:-1])) if len(lane) else np.zeros(0, np.int64)
        for k in heads.tolist():
            before[k] = self._last.get(int(lane[k]), -1)
        for k in np.append(heads[1:] - 1, len(lane) - 1).tolist() if len(lane) else []:
            self._last[int(lane[k])] = int(ordered[k])
        return Sequence(rows=order, lane=lane, before=before, numbers=ordered, flags=flags, heads=heads)


class Steps:
    """The distinct steps of a trace, each with a number, batch by batch."""

    def __init__(self) -> None:
        self._rows = DistinctRows(STEP)
        self._sequences = Sequences()

    @property
    def table(self) -> npt.NDArray[Any]:
        """The distinct steps, rows of ``STEP``."""
        return self._rows.table

    def take(self, ranges: TraceRanges, numbers: I64) -> Taken:
        """Return the steps that lead to the ranges of a batch; ``numbers`` are those of the distinct ranges."""
        sequence = self._sequences.take(ranges, numbers)
        with_step = np.flatnonzero((sequence.before >= 0) & (sequence.flags & np.uint8(GAP) == 0))
        kind = sequence.flags[with_step] & np.uint8(EXCEPTION | RETURN)
        numbers_of = self._rows.numbers(sequence.before[with_step], sequence.numbers[with_step], kind)
        return Taken(sequence.rows[with_step], numbers_of)
