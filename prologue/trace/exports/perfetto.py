"""Perfetto's trace: a track for each CPU, below it one for each of its tasks, with call stacks as slices.

A slice says when a function of a track began and ended. The schema is Perfetto's protos/perfetto/trace/track_event; its
Python package has the classes. A trace is packets one after the other, so that pieces of a file are traces, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NamedTuple

from prologue.errors import InputError
from prologue.installation import how_to_install
from prologue.trace.exports.formats import ExportSubject
from prologue.trace.exports.stack_export import StackExport, task_name
from prologue.trace.views.stacks import StackSegment, StackTree

_AT_ONCE: Final = 1 << 12  # packets
_SEQUENCE: Final = 1
_COUNT: Final = 1  # number of the name "instructions"
_ROOT: Final = 1  # uuid of the track above all


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


class PerfettoExport(StackExport):
    """Writes packets as the trace is read; function names and tracks once, when they are first met."""

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        try:
            from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
        except ImportError as error:
            raise InputError(
                f"perfetto's Python package is missing: {how_to_install('reports', 'perfetto')}"
            ) from error
        super().__init__(subject, stream)
        self._schema: Any = schema
        self._slices = Slices(self._segments.tree)
        self._names: dict[str, int] = {}
        self._uuids: dict[Track | int, int] = {}
        self._packets = schema.Trace()
        first = self._packet(clears=True)
        annotation = first.interned_data.debug_annotation_names.add()
        annotation.iid, annotation.name = _COUNT, "instructions"
        self._describe(_ROOT, 0, subject.title)

    def _take(self, segments: Iterable[StackSegment]) -> None:
        self._write(self._slices.take(segments))

    def _close(self) -> None:
        self._write(self._slices.close())
        self._flush()

    def _write(self, edges: Iterable[SliceEdge]) -> None:
        kind = self._schema.TrackEvent
        for edge in edges:
            uuid = self._uuid(edge.track)
            name = self._name(edge.node) if edge.instructions is None else 0
            packet = self._packet()
            packet.timestamp = edge.time
            event = packet.track_event
            event.track_uuid = uuid
            if edge.instructions is None:
                event.type, event.name_iid = kind.TYPE_SLICE_BEGIN, name
            else:
                event.type = kind.TYPE_SLICE_END
                count = event.debug_annotations.add()
                count.name_iid, count.uint_value = _COUNT, edge.instructions
            if len(self._packets.packet) >= _AT_ONCE:
                self._flush()

    def _packet(self, *, clears: bool = False) -> Any:
        packet = self._packets.packet.add()
        packet.trusted_packet_sequence_id = _SEQUENCE
        flags = self._schema.TracePacket
        packet.sequence_flags = flags.SEQ_INCREMENTAL_STATE_CLEARED if clears else flags.SEQ_NEEDS_INCREMENTAL_STATE
        return packet

    def _name(self, node: int) -> int:
        text = self._segments.tree.name(node)
        number = self._names.get(text)
        if number is None:
            number = self._names[text] = len(self._names) + 1
            entry = self._packet().interned_data.event_names.add()
            entry.iid, entry.name = number, text
        return number

    def _uuid(self, track: Track) -> int:
        uuid = self._uuids.get(track)
        if uuid is None:
            cpu = self._uuids.get(track.lane)
            if cpu is None:
                cpu = self._uuids[track.lane] = _ROOT + 1 + len(self._uuids)
                self._describe(cpu, _ROOT, lane_name(track.lane))
            uuid = self._uuids[track] = _ROOT + 1 + len(self._uuids)
            self._describe(uuid, cpu, task_name(self._tasks[track.task]))
        return uuid

    def _describe(self, uuid: int, parent: int, name: str) -> None:
        track = self._packet().track_descriptor
        track.uuid, track.name = uuid, name
        if parent:
            track.parent_uuid = parent

    def _flush(self) -> None:
        self._stream.write(self._packets.SerializeToString())
        self._packets.Clear()
