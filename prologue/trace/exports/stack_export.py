"""An export of call stacks in time, whatever the format, and the sum of all in the simplest one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from typing import BinaryIO

from prologue.arrays import I64, Bool
from prologue.trace.exports.formats import ExportSubject
from prologue.trace.ranges import NO_TASK, Batch, TracedTask
from prologue.trace.views.stacks import StackSegment, StackSegments, fold


class StackExport(ABC):
    """The stacks of a trace, segment by segment; ``_tasks`` are those of ``Batch``."""

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        self._subject, self._stream = subject, stream
        self._segments = StackSegments(subject.known, by_time=subject.by_time)
        self._tasks = [NO_TASK]

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """See ``Export``."""
        self._tasks = batch.tasks
        self._take(self._segments.take(batch, numbers, keep))

    def finish(self) -> list[str]:
        """See ``Export``."""
        self._take(self._segments.close())
        self._close()
        return []

    @abstractmethod
    def _take(self, segments: Iterable[StackSegment]) -> None:
        """Take segments, which come in the order of each lane."""

    @abstractmethod
    def _close(self) -> None:
        """Write what is left."""


class FoldedExport(StackExport):
    """Folded stacks: a line for each call stack, with its instructions.

    The task is the outermost frame if the trace names any, as stackcollapse-perf.pl has it.
    """

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        super().__init__(subject, stream)
        self._counts: Counter[tuple[int, int]] = Counter()

    def _take(self, segments: Iterable[StackSegment]) -> None:
        for segment in segments:
            self._counts[segment.task, segment.node] += segment.instructions

    def _close(self) -> None:
        tree, named = self._segments.tree, any(task for task, _ in self._counts)
        for (task, node), count in sorted(self._counts.items()):
            names = [task_name(self._tasks[task])] if named else []
            names += [tree.name(frame) for frame in tree.path(node)]
            self._stream.write(f"{fold(names)} {count}\n".encode())


def task_name(task: TracedTask) -> str:
    """Name a task by what the trace has of it."""
    if task.tid < 0:
        return task.comm or "no task"
    return f"{task.comm} {task.tid}" if task.comm else f"task {task.tid}"
