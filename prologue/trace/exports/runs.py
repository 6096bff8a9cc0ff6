"""Straight runs between branches, and what led from each run to the next: branch profiles are made of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64
from prologue.insn.rows import flows
from prologue.trace.path.branching import BL, CALL, CONDITIONAL, ERET, INDIRECT, RET, B
from prologue.trace.path.branching import UNKNOWN as OTHER
from prologue.trace.path.known import KnownRanges, PerNumber
from prologue.trace.path.steps import Steps, lanes
from prologue.trace.ranges import EXCEPTION, RETURN, Batch
from prologue.trace.readers.intern import by_lane

UNKNOWN, ONWARD, BRANCH, EXCEPTIONAL = range(4)
"""What led to a run: a gap; the next instruction; a branch; an exception or the return from one."""
RUN: Final = np.dtype(
    [
        ("start", "<u8"),
        ("end", "<u8"),  # address after the last instruction
        ("origin", "<u8"),  # address of the last instruction of the run before it
        ("lane", "<i8"),
        ("program", "<i4"),
        ("before", "<i4"),  # program of the run before it
        ("entry", "u1"),
    ],
    align=True,
)
_ALWAYS: Final = (B, BL, INDIRECT, CALL, RET, ERET)
_BRANCHES: Final = (B, BL, CONDITIONAL, INDIRECT, CALL, RET, OTHER)
Runs = npt.NDArray[Any]
"""An array of ``RUN``, shape (n,)."""


class RunJoiner:
    """Joins ranges that go on from one to the next: readers end a range at a branch, and others anywhere, too."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._steps = Steps()
        self._kinds = PerNumber(self._kinds_of, np.uint8)
        self._open: dict[int, Runs] = {}  # of each lane, its last run: shape (1,)

    def take(self, batch: Batch, numbers: I64) -> Iterator[Runs]:
        """Give the runs that a batch ends, an array for each lane, in the lane's order."""
        ranges = batch.ranges
        taken = self._steps.take(ranges, numbers)
        entry = np.zeros(len(ranges), np.uint8)
        entry[taken.rows] = self._kinds.up_to(len(self._steps.table))[taken.numbers]
        before = self._known.table[self._steps.table["before"][taken.numbers]]
        origin, program = np.zeros(len(ranges), np.uint64), np.full(len(ranges), -1, np.int64)
        origin[taken.rows], program[taken.rows] = before["end"] - np.uint64(4), before["program"]
        own, order = lanes(ranges), by_lane(lanes(ranges))
        order = np.arange(len(own)) if order is None else order
        for lane in np.unique(own[order]).tolist():
            rows = order[own[order] == lane]
            heads = np.flatnonzero(entry[rows] != ONWARD)
            runs = np.zeros(len(heads), RUN)
            first = rows[heads]
            runs["start"], runs["lane"], runs["entry"] = ranges["start"][first], lane, entry[first]
            runs["origin"], runs["before"] = origin[first], program[first]
            runs["program"] = self._known.table["program"][numbers[first]]
            if lane in self._open:
                runs, heads = np.concatenate([self._open[lane], runs]), np.append(-1, heads)
            stops = np.append(heads[1:], len(rows)) - 1
            moved = stops >= 0  # the open run goes on into this batch
            runs["end"][moved] = ranges["end"][rows[stops[moved]]]
            self._open[lane] = runs[-1:]
            yield runs[:-1]

    def close(self) -> Iterator[Runs]:
        """Give the last run of each lane."""
        yield from self._open.values()

    def _kinds_of(self, numbers: I64) -> npt.NDArray[np.uint8]:
        table, steps = self._known.table, self._steps.table[numbers]
        before, after = table[steps["before"]], table[steps["after"]]
        flow = flows(self._known.last_words(steps["before"]))
        here = before["piece"] >= 0  # of other code the words are not known
        onward = (before["end"] == after["start"]) & (before["program"] == after["program"])
        onward &= ~(here & np.isin(flow, _ALWAYS))
        vectors = np.concatenate([program.vectors for program in self._known.kernels.programs])
        exceptional = (steps["flags"] & np.uint8(EXCEPTION | RETURN) != 0) | np.isin(after["start"], vectors)
        exceptional |= here & ~onward & ~np.isin(flow, _BRANCHES)
        kinds = np.where(onward, ONWARD, BRANCH)
        kinds[onward & (before["piece"] != after["piece"])] = UNKNOWN  # into, or out of, what no image has
        return np.where(exceptional, EXCEPTIONAL, kinds).astype(np.uint8)
