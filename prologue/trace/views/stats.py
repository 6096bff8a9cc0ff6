"""What a trace says in sum: functions by instructions and entries, executed prologues, coverage, and stacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.trace.path.assign import UNDECIDED, USER, WORLD
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.programs import Program
from prologue.trace.ranges import Batch, count_instructions
from prologue.trace.views.walk import Walk


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionUse:
    """How much of a trace a function is: instructions executed, how often its first one, how many distinct ones."""

    program: int
    name: str
    vaddr: int
    instructions: int
    entries: int
    distinct: int


class Executed(NamedTuple):
    """The instructions of a program that were executed: addresses, ascending, and how often; shape (n,)."""

    vaddrs: U64
    counts: I64

    def at(self, places: U64) -> I64:
        """How often the instruction at each place was executed; shape of ``places``."""
        if not len(self.vaddrs):
            return np.zeros(len(places), np.int64)
        row = np.minimum(np.searchsorted(self.vaddrs, places), len(self.vaddrs) - 1)
        return np.where(self.vaddrs[row] == places, self.counts[row], 0)


def executed(known: KnownRanges, runs: I64, row: int) -> Executed:
    """Count the instructions of one program; ``runs`` says how often each distinct range ran."""
    table = known.table[: len(runs)]
    mine = (table["program"] == row) & (table["piece"] >= 0) & (runs > 0)
    starts, sizes = table["start"][mine], ((table["end"][mine] - table["start"][mine]) >> np.uint64(2)).astype(np.int64)
    owner = np.repeat(np.arange(len(starts)), sizes)
    within = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]
    places = starts[owner] + within.astype(np.uint64) * np.uint64(4)
    vaddrs, inverse = np.unique(places, return_inverse=True)
    counts = np.zeros(len(vaddrs), np.int64)
    np.add.at(counts, inverse, runs[mine][owner])
    return Executed(vaddrs, counts)


def by_function(program: Program, row: int, done: Executed) -> list[FunctionUse]:
    """Every function that was executed, the one with the most instructions first."""
    starts = program.place_starts(done.vaddrs)
    places, inverse, distinct = np.unique(starts, return_inverse=True, return_counts=True)
    sums = np.zeros(len(places), np.int64)
    np.add.at(sums, inverse, done.counts)
    entries = done.at(places)
    order = np.argsort(-sums, kind="stable")
    columns = (places[order], sums[order], entries[order], distinct[order])
    return [
        FunctionUse(
            program=row,
            name=program.name_at(place) or f"{place:#x}",
            vaddr=place,
            instructions=count,
            entries=entered,
            distinct=size,
        )
        for place, count, entered, size in zip(*(column.tolist() for column in columns), strict=True)
    ]


@dataclass(slots=True)
class _Node:
    """A function in a tree of stacks; ``own`` counts the instructions while it was on top."""

    own: int = 0
    callees: dict[tuple[int, int], _Node] = field(default_factory=dict)


class FoldedStacks:
    """Instructions by call stack, in the form that flame graph tools read: names from the outermost on, and a count."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._walk = Walk(known)
        self._root = _Node()
        self._open: dict[int, list[_Node]] = {}  # for each lane, the nodes of its stack, the root first

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """Take in a batch; only the ranges that are kept are counted, but stacks are of all that ran."""
        from prologue.trace.path.steps import lanes

        ranges = batch.ranges
        lane = lanes(ranges)
        sizes = np.where(keep, count_instructions(ranges), 0)
        totals: dict[int, tuple[I64, I64]] = {}
        for own in np.unique(lane).tolist():
            rows = np.flatnonzero(lane == own)
            totals[own] = rows, np.append(0, np.cumsum(sizes[rows]))
        done = dict.fromkeys(totals, 0)
        for change in self._walk.changes(batch, numbers):
            rows, sums = totals[change.lane]
            upto = int(sums[np.searchsorted(rows, change.row)])
            nodes = self._open.setdefault(change.lane, [self._root])
            nodes[-1].own += upto - done[change.lane]
            done[change.lane] = upto
            del nodes[len(change.stack) :]  # of what stays, only the top may be another function
            for frame in change.stack[len(nodes) - 1 :]:
                nodes.append(nodes[-1].callees.setdefault((frame.program, frame.function), _Node()))
        for own, (_, sums) in totals.items():
            self._open.setdefault(own, [self._root])[-1].own += int(sums[-1]) - done[own]

    def lines(self) -> Iterator[str]:
        """A line for each stack that executed something."""
        todo: list[tuple[str, _Node]] = [("", self._root)]
        while todo:
            path, node = todo.pop()
            if node.own and path:
                yield f"{path} {node.own}"
            for (program, function), callee in node.callees.items():
                name = self._name(program, function)
                todo.append((f"{path};{name}" if path else name, callee))

    def _name(self, program: int, function: int) -> str:
        if program == USER:
            return "[user]"
        if program in (UNDECIDED, WORLD) or not function:
            return "[unknown]"
        return self._known.kernels.programs[program].name_at(function).replace(";", ":")
