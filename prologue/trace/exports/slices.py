"""Stacks in time as slices: when each function of a track began and ended. A track is one task on one CPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from prologue.trace.ranges import TracedTask
from prologue.trace.views.stacks import StackSegment, StackTree


class Track(NamedTuple):
    """A lane (see ``lanes``) and a row of ``Batch.tasks``."""

    lane: int
    task: int


class SliceEdge(NamedTuple):
    """The start or end of a slice on a track; at its end, what its function executed itself, without its callees."""

    track: Track
    node: int
    time: int
    instructions: int | None
    """None where it begins."""


@dataclass(slots=True)
class _Open:
    track: Track
    end: int
    nodes: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def close(self, depth: int, time: int) -> Iterator[SliceEdge]:
        """End the slices from a depth on, the innermost first."""
        while len(self.nodes) > depth:
            yield SliceEdge(self.track, self.nodes.pop(), time, self.counts.pop())


class Slices:
    """Makes slices of segments, which come in the order of each lane."""

    def __init__(self, tree: StackTree) -> None:
        self._tree = tree
        self._open: dict[int, _Open] = {}

    def take(self, segments: Iterable[StackSegment]) -> Iterator[SliceEdge]:
        """Give the edges that segments make, in the order of each track."""
        for segment in segments:
            track = Track(segment.lane, segment.task)
            current = self._open.get(segment.lane)
            if current is None:
                current = self._open[segment.lane] = _Open(track, segment.begin)
            if not segment.joined or track != current.track:
                yield from current.close(0, current.end)
            current.track, current.end = track, segment.end
            fresh, node = [], segment.node
            while (depth := self._tree.depths[node]) and current.nodes[depth - 1 : depth] != [node]:
                fresh.append(node)
                node = self._tree.parents[node]
            yield from current.close(depth, segment.begin)
            for node in reversed(fresh):
                current.nodes.append(node)
                current.counts.append(0)
                yield SliceEdge(track, node, segment.begin, None)
            current.counts[-1] += segment.instructions

    def close(self) -> Iterator[SliceEdge]:
        """End what is open."""
        for current in self._open.values():
            yield from current.close(0, current.end)


def lane_name(lane: int) -> str:
    """Name a CPU of a trace."""
    return f"CPU {lane}" if lane >= 0 else "no CPU"


def task_name(task: TracedTask) -> str:
    """Name a task by what the trace has of it."""
    if task.tid < 0:
        return task.comm or "no task"
    return f"{task.comm} {task.tid}" if task.comm else f"task {task.tid}"
