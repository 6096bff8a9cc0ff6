"""Speedscope's JSON: an evented profile for each task on each CPU (speedscope.app/file-format-schema.json)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import BinaryIO, Final

from prologue.trace.exports.slices import SliceEdge, Slices, Track, lane_name, task_name
from prologue.trace.exports.spool import Spool
from prologue.trace.exports.stack_export import StackExport
from prologue.trace.exports.subject import ExportSubject
from prologue.trace.views.stacks import StackSegment

_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"


class SpeedscopeExport(StackExport):
    """Keeps the events of each track on disk until the end, for they are listed track by track."""

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        super().__init__(subject, stream)
        self._slices = Slices(self._segments.tree)
        self._events: Spool[Track] = Spool()
        self._spans: dict[Track, tuple[int, int]] = {}
        self._frames: dict[str, int] = {}

    def _take(self, segments: Iterable[StackSegment]) -> None:
        self._write(self._slices.take(segments))

    def _close(self) -> None:
        self._write(self._slices.close())
        frames = json.dumps([{"name": name} for name in self._frames])
        head = {"$schema": _SCHEMA, "exporter": "prologue", "name": self._subject.title}
        self._stream.write(f'{json.dumps(head)[:-1]}, "shared": {{"frames": {frames}}}, "profiles": ['.encode())
        for number, track in enumerate(sorted(self._spans)):
            self._profile(track, first=number == 0)
        self._stream.write(b"\n]}\n")

    def _write(self, edges: Iterable[SliceEdge]) -> None:
        for edge in edges:
            frame = self._frames.setdefault(self._segments.tree.name(edge.node), len(self._frames))
            time, known = edge.time - self._subject.start, self._spans.get(edge.track)
            self._spans[edge.track] = known[0] if known else time, time
            kind = "O" if edge.instructions is None else "C"
            comma = "," if known else ""
            self._events.add(edge.track, f'{comma}\n{{"type":"{kind}","frame":{frame},"at":{time}}}'.encode())

    def _profile(self, track: Track, *, first: bool) -> None:
        begin, end = self._spans[track]
        name = f"{lane_name(track.lane)}: {task_name(self._tasks[track.task])}"
        unit = "nanoseconds" if self._subject.by_time else "none"
        head = {"type": "evented", "name": name, "unit": unit, "startValue": begin, "endValue": end}
        self._stream.write(f'{"" if first else ","}\n{json.dumps(head)[:-1]}, "events": ['.encode())
        self._stream.writelines(self._events.read(track))
        self._stream.write(b"]}")
