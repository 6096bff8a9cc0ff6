"""Call stacks of a trace in time: a tree of stacks, and segments of time in which a CPU had one of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from typing import Any, Final

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.trace.path.assign import UNDECIDED, USER, WORLD
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.steps import lanes
from prologue.trace.ranges import GAP, Batch, count_instructions
from prologue.trace.views.split import SymbolSplit
from prologue.trace.views.walk import FORGET, SWITCH, Frame, Walk

ROOT: Final = 0
"""The node of the empty stack."""
_LATEST: Final = np.uint64((1 << 63) - 1)
"""Tools for time lines have signed numbers of 64 bits."""
_MARKS: Final = str.maketrans({";": ":", "\n": " "})
"""Separators of folded stacks, between frames and between lines, which no name may have."""


class StackTree:
    """Every call stack that was met, each once: a node is a function below its caller's node.

    ``parents`` has the caller's node of each node, a smaller number; ``depths`` the number of functions in its stack;
    ``functions`` the program's row and the address of its symbol (0: none).
    """

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self.parents, self.depths, self.functions = [ROOT], [0], [(USER, 0)]
        self._nodes: dict[tuple[int, int, int], int] = {}

    def __len__(self) -> int:
        return len(self.parents)

    def below(self, parent: int, frame: Frame) -> int:
        """Return the node of a function that a stack calls."""
        key = parent, frame.program, frame.function
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = len(self.parents)
            self.parents.append(parent)
            self.depths.append(self.depths[parent] + 1)
            self.functions.append((frame.program, frame.function))
        return node

    def path(self, node: int) -> list[int]:
        """Return the nodes of a stack, the outermost function's first."""
        nodes = []
        while node != ROOT:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]

    def name(self, node: int) -> str:
        """Return the name of the innermost function."""
        program, function = self.functions[node]
        if program == USER:
            return "[user]"
        if program in (UNDECIDED, WORLD) or not function:
            return "[unknown]"
        return self._known.kernels.programs[program].name_at(function)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackSegment:
    """A segment of a lane with one stack and one task: a node of the tree, and a row of ``Batch.tasks``.

    ``begin`` and ``end`` are ns, or instructions of that lane (see ``StackSegments``). ``joined``: its stack goes on
    from the segment before it in that lane; otherwise there is a gap between them.
    """

    lane: int
    task: int
    node: int
    begin: int
    end: int
    instructions: int
    joined: bool


@dataclass(slots=True, kw_only=True)
class _Lane:
    """The stack of a lane as nodes, the root first, and its segment that is open; ``last`` is the latest time."""

    nodes: list[int] = field(default_factory=lambda: [ROOT])
    task: int = 0
    kept: bool = False
    joined: bool = False
    begin: int = 0
    instructions: int = 0
    last: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """The ranges of a batch lane after lane; shape (n,). ``heads`` are where lanes begin, ``places`` by row."""

    lane: I64
    heads: I64
    places: I64
    begins: U64
    """The time at which each range began."""
    ends: U64
    """The time at which the range before it ended: at a gap an earlier one, as the time between is of no stack."""
    sums: I64
    """Instructions before each range, and of all; shape (n + 1,)."""
    task: Any
    kept: Bool


class StackSegments:
    """The segments of a trace, batch by batch.

    With ``by_time`` times are those of the trace. They never go back in a lane, and a range without a time has that of
    the range before it; before the first time of its lane, that one, or the trace's first. Otherwise they are
    instructions that the lane executed.
    """

    def __init__(self, known: KnownRanges, *, by_time: bool) -> None:
        self.tree = StackTree(known)
        self._by_time = by_time
        self._walk, self._split = Walk(known), SymbolSplit(known)
        self._lanes: dict[int, _Lane] = {}
        self._first = 0  # time of the trace, which lanes without any time have

    def take(self, batch: Batch, numbers: I64, keep: Bool) -> Iterator[StackSegment]:
        """Yield the segments that end in a batch; only kept ranges are in them, but stacks are of all that ran."""
        batch, numbers, keep = self._split.take(batch, numbers, keep)
        if not len(keep):
            return
        columns = self._columns(batch, keep)
        changes = ((int(columns.places[change.row]), change) for change in self._walk.changes(batch, numbers))
        cuts = ((place, None) for place in self._cuts(columns))
        marks = dict(zip(columns.lane[columns.heads].tolist(), columns.heads.tolist(), strict=True))
        # Both are in the order of places, and a change is read while its stack is that of its place.
        for place, change in merge(changes, cuts, key=lambda event: event[0]):
            lane = int(columns.lane[place])
            state = self._lanes[lane]
            state.instructions += int(columns.sums[place] - columns.sums[marks[lane]])
            marks[lane] = place
            yield from _close(lane, state, int(columns.ends[place]))
            if change is not None:
                del state.nodes[len(change.stack) :]  # of the frames that stay, only the top may be another function
                for frame in change.stack[len(state.nodes) - 1 :]:
                    state.nodes.append(self.tree.below(state.nodes[-1], frame))
            forgot = change is not None and change.kind in (FORGET, SWITCH)
            state.joined = not forgot and state.kept and (state.joined or state.instructions > 0)
            state.begin, state.instructions = int(columns.begins[place]), 0
            state.task, state.kept = int(columns.task[place]), bool(columns.kept[place])
        stops = [*columns.heads[1:].tolist(), len(columns.lane)]
        for lane, stop in zip(marks, stops, strict=True):
            state = self._lanes[lane]
            state.instructions += int(columns.sums[stop] - columns.sums[marks[lane]])

    def close(self) -> Iterator[StackSegment]:
        """Yield the segments that the end of the trace ends."""
        for lane, state in self._lanes.items():
            yield from _close(lane, state, state.last)
            state.instructions = 0

    def _columns(self, batch: Batch, keep: Bool) -> _Columns:
        ranges = batch.ranges
        row_lanes = lanes(ranges)
        order = np.argsort(row_lanes, kind="stable")
        lane, places = row_lanes[order], np.empty(len(order), np.int64)
        places[order] = np.arange(len(order))
        heads = np.flatnonzero(np.append(True, lane[1:] != lane[:-1]))
        sums = np.append(0, np.cumsum(count_instructions(ranges)[order]))
        begins = np.minimum(ranges["time"][order], _LATEST) if self._by_time else np.zeros(len(lane), np.uint64)
        if not self._first and begins.any():
            self._first = int(begins[begins != 0].min())
        ends = begins.copy()
        gaps = ranges["flags"][order] & np.uint8(GAP) != 0
        for head, stop in zip(heads.tolist(), [*heads[1:].tolist(), len(lane)], strict=True):
            state = self._lanes.setdefault(int(lane[head]), _Lane())
            lane_rows = slice(head, stop)
            if self._by_time:
                known = begins[lane_rows][begins[lane_rows] != 0]
                floor = state.last or (int(known[0]) if len(known) else 0)
                least = floor or self._first
                begins[lane_rows] = np.maximum.accumulate(np.maximum(begins[lane_rows], np.uint64(least)))
                before = np.append(np.uint64(least), begins[lane_rows][:-1])
                ends[lane_rows] = np.where(gaps[lane_rows], before, begins[lane_rows])
                if not state.last:  # what is open began before the lane's first time
                    state.begin = least
                state.last = int(begins[stop - 1]) if floor else 0
            else:
                begins[lane_rows] = ends[lane_rows] = (sums[lane_rows] - sums[head] + state.last).astype(np.uint64)
                state.last += int(sums[stop] - sums[head])
        task, kept = ranges["task"][order], keep[order]
        return _Columns(
            lane=lane, heads=heads, places=places, begins=begins, ends=ends, sums=sums, task=task, kept=kept
        )  # fmt: skip

    def _cuts(self, columns: _Columns) -> list[int]:
        """Find places where another task runs, or ranges begin or cease to be kept."""
        task, kept = columns.task, columns.kept
        cut = np.append(False, (task[1:] != task[:-1]) | (kept[1:] != kept[:-1]))
        for head in columns.heads.tolist():
            state = self._lanes[int(columns.lane[head])]
            cut[head] = state.task != task[head] or state.kept != kept[head]
        places: list[int] = np.flatnonzero(cut).tolist()
        return places


def _close(lane: int, state: _Lane, end: int) -> Iterator[StackSegment]:
    if state.kept and state.instructions:
        yield StackSegment(
            lane=lane,
            task=state.task,
            node=state.nodes[-1],
            begin=state.begin,
            end=max(end, state.begin),
            instructions=state.instructions,
            joined=state.joined,
        )


def fold(names: Iterable[str]) -> str:
    """Join names to a line of folded stacks, the outermost frame first."""
    return ";".join(name.translate(_MARKS) for name in names)
