"""Folded stacks: a line for each call stack, below the task that had it, with its instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import BinaryIO

from prologue.arrays import I64, Bool
from prologue.trace.exports.slices import task_name
from prologue.trace.exports.subject import ExportSubject
from prologue.trace.ranges import NO_TASK, Batch
from prologue.trace.views.stacks import StackSegment, StackSegments, fold


class FoldedExport:
    """Sums up; the task is the outermost frame if the trace names any, as stackcollapse-perf.pl has it."""

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        self._stream = stream
        self._segments = StackSegments(subject.known, by_time=False)
        self._counts: Counter[tuple[int, int]] = Counter()
        self._tasks = [NO_TASK]

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """See ``Export``."""
        self._tasks = batch.tasks
        self._sum(self._segments.take(batch, numbers, keep))

    def finish(self) -> list[str]:
        """See ``Export``."""
        self._sum(self._segments.close())
        tree, named = self._segments.tree, any(task for task, _ in self._counts)
        for (task, node), count in sorted(self._counts.items()):
            names = [task_name(self._tasks[task])] if named else []
            names += [tree.name(frame) for frame in tree.path(node)]
            self._stream.write(f"{fold(names)} {count}\n".encode())
        return []

    def _sum(self, segments: Iterable[StackSegment]) -> None:
        for segment in segments:
            self._counts[segment.task, segment.node] += segment.instructions
