"""The Firefox profiler's processed format, version 60: a process for each CPU, and a thread for each of its tasks.

A sample is a stack from its time on, weighted by the instructions that were executed with it; one without a stack says
that the task does not run from then on. (firefox-devtools/profiler: src/types/profile.ts, docs-developer/
CHANGELOG-formats.md. The profiler takes every version up to its own.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, BinaryIO, Final

from prologue.trace.exports.slices import Track, lane_name, task_name
from prologue.trace.exports.spool import Spool
from prologue.trace.exports.stack_export import StackExport
from prologue.trace.exports.subject import ExportSubject
from prologue.trace.views.stacks import ROOT, StackSegment

_VERSION: Final = 60
_GECKO: Final = 31  # of Gecko's own format at that time
_COLUMNS: Final = ("stack", "time", "weight")
_CATEGORIES: Final = [
    {"name": name, "color": color, "subcategories": ["Other"]}
    for name, color in (("Other", "grey"), ("Kernel", "orange"), ("User", "yellow"))
]


class FirefoxExport(StackExport):
    """Keeps the columns of each thread on disk until the end; the stacks that all share are in memory."""

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        super().__init__(subject, stream)
        self._columns: Spool[tuple[Track, str]] = Spool()
        self._sizes: dict[Track, int] = {}
        self._last: dict[int, StackSegment] = {}  # of each lane

    def _close(self) -> None:
        for segment in self._last.values():
            self._sample(Track(segment.lane, segment.task), ROOT, segment.end, 0)
        head = json.dumps({"meta": self._meta(), "libs": [], "pages": [], "shared": self._shared()})
        self._stream.write(f'{head[:-1]}, "threads": ['.encode())
        for number, track in enumerate(sorted(self._sizes)):
            self._thread(track, first=number == 0)
        self._stream.write(b"\n]}\n")

    def _take(self, segments: Iterable[StackSegment]) -> None:
        for segment in segments:
            before = self._last.get(segment.lane)
            if before is not None and not (segment.joined and segment.task == before.task):
                self._sample(Track(before.lane, before.task), ROOT, before.end, 0)
            self._sample(Track(segment.lane, segment.task), segment.node, segment.begin, segment.instructions)
            self._last[segment.lane] = segment

    def _sample(self, track: Track, node: int, time: int, weight: int) -> None:
        size = self._sizes.get(track, 0)
        self._sizes[track] = size + 1
        comma = "," if size else ""
        # ms, all digits of it: a number of JSON is no float until it is read
        since = time - self._subject.start  # negative on a CPU that is read later and began earlier
        whole, rest = divmod(abs(since), 10**6)
        stack = "null" if node == ROOT else str(node - 1)  # the root is no row of the table
        for name, value in zip(_COLUMNS, (stack, f"{'-' * (since < 0)}{whole}.{rest:06}", str(weight)), strict=True):
            self._columns.add((track, name), f"{comma}{value}".encode())

    def _meta(self) -> dict[str, Any]:
        return {
            "interval": 1, "startTime": 0, "processType": 0, "product": f"{self._subject.title}",
            "stackwalk": 1, "version": _GECKO, "preprocessedProfileVersion": _VERSION, "categories": _CATEGORIES,
            "markerSchema": [], "symbolicated": True, "usesOnlyOneStackType": True, "importedFrom": "prologue",
            "sourceCodeIsNotOnSearchfox": True,
        }  # fmt: skip

    def _shared(self) -> dict[str, Any]:
        """Give the tables: a stack for each node of the tree but its root, a frame and a function for each name."""
        tree, names = self._segments.tree, dict[str, int]()
        frames = [names.setdefault(tree.name(node), len(names)) for node in range(1, len(tree))]
        prefixes = [None if parent == ROOT else parent - 1 for parent in tree.parents[1:]]
        count = len(names)
        strings = list(names)
        none, zeros, rows = [None] * count, [0] * count, list(range(count))
        return {
            "stringArray": strings,
            "stackTable": {"frame": frames, "prefix": prefixes, "length": len(frames)},
            "frameTable": {
                "address": [-1] * count, "inlineDepth": zeros, "subcategory": zeros, "func": rows, "line": none,
                "category": [2 if name == "[user]" else 1 for name in strings], "nativeSymbol": none, "column": none,
                "innerWindowID": none, "length": count,
            },
            "funcTable": {
                "name": rows, "isJS": [False] * count, "relevantForJS": [False] * count, "resource": [-1] * count,
                "source": none, "lineNumber": none, "columnNumber": none, "length": count,
            },
            "resourceTable": {"type": [], "lib": [], "name": [], "host": [], "length": 0},
            "nativeSymbols": {"libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0},
            "sources": {"uuid": [], "filename": [], "length": 0},
        }  # fmt: skip

    def _thread(self, track: Track, *, first: bool) -> None:
        cpu, task = lane_name(track.lane), task_name(self._tasks[track.task])
        empty = {name: list[int]() for name in ("data", "name", "startTime", "endTime", "phase", "category")}
        head = {
            "name": task, "processName": cpu, "pid": cpu, "tid": f"{cpu} {task}", "processType": "default",
            "isMainThread": False, "processStartupTime": 0, "processShutdownTime": None, "registerTime": 0,
            "unregisterTime": None, "pausedRanges": [], "markers": {**empty, "length": 0},
        }  # fmt: skip
        size = self._sizes[track]
        self._stream.write(f'{"" if first else ","}\n{json.dumps(head)[:-1]}, "samples": {{'.encode())
        for name in _COLUMNS:
            self._stream.write(f'"{name}": ['.encode())
            self._stream.writelines(self._columns.read((track, name)))
            self._stream.write(b"], ")
        self._stream.write(f'"weightType": "samples", "length": {size}}}}}'.encode())
