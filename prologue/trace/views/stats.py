"""Statistics of a trace: functions by instructions and entries, executed prologues, coverage, and stacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.errors import PrologueError
from prologue.live.system.programs import Program
from prologue.trace.path.known import KnownRanges
from prologue.trace.ranges import Batch
from prologue.trace.views.stacks import StackSegments, fold


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionUse:
    """A function in a trace: instructions executed, executions of its first one (entries), and distinct ones."""

    program: int
    name: str
    vaddr: int
    instructions: int
    entries: int
    distinct: int


class Executed(NamedTuple):
    """The instructions of a program that were executed: addresses, ascending, and counts; shape (n,)."""

    vaddrs: U64
    counts: I64

    @classmethod
    def summed(cls, vaddrs: U64, counts: I64) -> Executed:
        """Return the sum of the counts of each address; these come in any order."""
        distinct, inverse = np.unique(vaddrs, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, inverse, counts)
        return cls(distinct, sums)

    def at(self, places: U64) -> I64:
        """Count executions of the instruction at each place; shape of ``places``."""
        if not len(self.vaddrs):
            return np.zeros(len(places), np.int64)
        row = np.minimum(np.searchsorted(self.vaddrs, places), len(self.vaddrs) - 1)
        return np.where(self.vaddrs[row] == places, self.counts[row], 0)

    def moved(self, shift: int) -> Executed:
        """Return the same at addresses ``shift`` bytes further on."""
        return Executed(self.vaddrs + np.uint64(shift), self.counts)


def merged(parts: Sequence[Executed]) -> Executed:
    """Return the instructions of all parts, with the sum of their counts."""
    if len(parts) == 1:
        return parts[0]
    vaddrs, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Executed.summed(vaddrs, counts)


def executed(known: KnownRanges, runs: I64, row: int) -> Executed:
    """Count the instructions of one program; ``runs`` are counts of each distinct range."""
    table = known.table[: len(runs)]
    ran = (table["program"] == row) & (table["piece"] >= 0) & (runs > 0)
    starts, sizes = table["start"][ran], ((table["end"][ran] - table["start"][ran]) >> np.uint64(2)).astype(np.int64)
    owner = np.repeat(np.arange(len(starts)), sizes)
    within = np.arange(len(owner)) - (np.cumsum(sizes) - sizes)[owner]
    return Executed.summed(starts[owner] + within.astype(np.uint64) * np.uint64(4), runs[ran][owner])


def by_function(program: Program, row: int, done: Executed) -> list[FunctionUse]:
    """Return every function that was executed, the one with the most instructions first."""
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


def first_slots(program: Program) -> U64 | None:
    """Return run-time addresses of the kernel's first slots; None if it has no patch sites that can be found."""
    from prologue.kernel.load import open_binary

    owner = program.kernel
    if owner.label:  # a process's
        return None
    try:
        sites = open_binary(owner.image.path).sites
    except PrologueError:
        return None
    if sites is None:
        return None
    moved: U64 = sites.first + np.uint64(owner.slide & 0xFFFFFFFFFFFFFFFF)
    return moved


class FoldedStacks:
    """Instructions by call stack, in the form that flame graph tools read: names from the outermost on, and a count."""

    def __init__(self, known: KnownRanges) -> None:
        self._segments = StackSegments(known, by_time=False)
        self._counts: Counter[int] = Counter()

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """Add a batch; only the ranges that are kept are counted, but stacks are of all that ran."""
        for segment in self._segments.take(batch, numbers, keep):
            self._counts[segment.node] += segment.instructions

    def lines(self) -> Iterator[str]:
        """Yield a line for each stack that executed something."""
        for segment in self._segments.close():
            self._counts[segment.node] += segment.instructions
        tree = self._segments.tree
        for node, count in sorted(self._counts.items()):
            yield f"{fold(map(tree.name, tree.path(node)))} {count}"
