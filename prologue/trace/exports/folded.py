"""Folded stacks: a line for each call stack, below the task that had it, with its instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import BinaryIO

from prologue.trace.exports.slices import task_name
from prologue.trace.exports.stack_export import StackExport
from prologue.trace.exports.subject import ExportSubject
from prologue.trace.views.stacks import StackSegment, fold


class FoldedExport(StackExport):
    """Sums up; the task is the outermost frame if the trace names any, as stackcollapse-perf.pl has it."""

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
