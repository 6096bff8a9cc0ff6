"""An export of call stacks in time, whatever the format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import BinaryIO

from prologue.arrays import I64, Bool
from prologue.trace.exports.subject import ExportSubject
from prologue.trace.ranges import NO_TASK, Batch
from prologue.trace.views.stacks import StackSegment, StackSegments


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
