"""The records of a perf.data file, one after the other: of files, of pipes, and compressed ones.

The end of each record has its task, time and CPU.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from mmap import mmap
from typing import Final, NamedTuple

from prologue.perf.layout import ATTRIBUTE, RECORD, SAMPLE_ID_ALL, SMALLEST_ATTRIBUTE, RecordKind, Sample

_MOST_UNPACKED: Final = 1 << 30  # bytes, of all compressed records together


# In this order (struct sample_id in include/uapi/linux/perf_event.h, 6.12), each 8 bytes.
_ORDER: Final = (Sample.TID, Sample.TIME, Sample.ID, Sample.STREAM_ID, Sample.CPU, Sample.IDENTIFIER)


class PerfRecord(NamedTuple):
    """A record: its header's type and misc, and its body; ``at`` is its offset in the file, for messages."""

    kind: int
    misc: int
    body: bytes
    at: int


class RecordReader:
    """The reader of the records in ``data[start:stop]``; sizes are checked, kinds are not.

    Compressed records hold other records, which may be cut anywhere: together they are one zstd stream
    (``perf_session__process_compressed_event`` in ``tools/perf/util/session.c``, 6.12).
    """

    def __init__(self, data: mmap | bytes, start: int, stop: int, *, is_pipe: bool) -> None:
        self._data, self._at, self._stop = data, start, stop
        self._is_pipe = is_pipe
        self._unpacker: Unpacker | None = None

    def __iter__(self) -> Iterator[PerfRecord]:
        """Yield all records.

        Raises:
            ValueError: a damaged record; its message has the byte.

        """
        while self._at < self._stop:
            record = self._next(self._data, self._at, self._stop)
            start, self._at = self._at, self._at + RECORD.size + len(record.body) + self._after(record)
            if record.kind in (RecordKind.COMPRESSED, RecordKind.COMPRESSED2):
                yield from self._unpacked(record, start)
            else:
                yield record
        if self._at > self._stop:
            raise ValueError("the last record's data are cut off")
        if self._unpacker and self._unpacker.pending:
            raise ValueError("the last compressed record is cut off")

    @staticmethod
    def _next(data: mmap | bytes, at: int, stop: int) -> PerfRecord:
        if stop - at < RECORD.size:
            raise ValueError(f"cut off at byte {at:,}")
        kind, misc, size = RECORD.unpack_from(data, at)
        if size < RECORD.size:
            raise ValueError(f"a record of {size} bytes at byte {at:,}")
        if at + size > stop:
            raise ValueError(f"the record at byte {at:,} is cut off")
        return PerfRecord(kind, misc, data[at + RECORD.size : at + size], at)

    def _after(self, record: PerfRecord) -> int:
        """Return the number of bytes that follow a record and do not count in its size."""
        if record.kind == RecordKind.AUXTRACE:
            return _number(record, 8)
        if record.kind == RecordKind.TRACING_DATA and self._is_pipe:
            return -(-_number(record, 4) // 8) * 8
        return 0

    def _unpacked(self, record: PerfRecord, start: int) -> Iterator[PerfRecord]:
        payload = record.body
        if record.kind == RecordKind.COMPRESSED2:
            payload = payload[8 : 8 + _number(record, 8)]
        self._unpacker = self._unpacker or Unpacker()
        data = self._unpacker.add(payload, start)
        at = 0
        while len(data) - at >= RECORD.size:
            size = RECORD.unpack_from(data, at)[2]
            if size >= RECORD.size and size > len(data) - at:
                break
            yield self._next(data, at, len(data))._replace(at=start)
            at += size
        self._unpacker.pending = data[at:]


class Unpacker:
    """The stream of compressed records; ``pending`` is the start of a record that is not whole yet."""

    def __init__(self) -> None:
        import zstandard

        self._stream = zstandard.ZstdDecompressor(max_window_size=128 << 20).decompressobj()
        self._error = zstandard.ZstdError
        self._total = 0
        self.pending = b""

    def add(self, payload: bytes, at: int) -> bytes:
        """Unpack one more compressed record; return ``pending``, which was not consumed yet, and its bytes."""
        try:
            more = self._stream.decompress(payload)
        except self._error as error:
            raise ValueError(f"the compressed record at byte {at:,} does not unpack") from error
        self._total += len(more)
        if self._total > _MOST_UNPACKED:
            raise ValueError("compressed records hold more than 1 GiB")
        return self.pending + more


def _number(record: PerfRecord, size: int) -> int:
    if len(record.body) < size:
        raise ValueError(f"the record at byte {record.at:,} is too short")
    return int.from_bytes(record.body[:size], "little")


class SampleId(NamedTuple):
    """The fields at the end of a record; -1, and time 0, if not known."""

    size: int  # bytes at the end of the record
    time: int = 0
    cpu: int = -1
    pid: int = -1
    tid: int = -1


class PerfEvent(NamedTuple):
    """An event, by the words of its records' ``sample_id``; none if they end without one."""

    words: tuple[Sample, ...]
    ids: tuple[int, ...]

    @property
    def size(self) -> int:
        """Size of its records' ``sample_id`` in bytes."""
        return 8 * len(self.words)


def event_of(attribute: bytes, ids: Iterable[int]) -> PerfEvent:
    """Read a ``struct perf_event_attr``.

    Raises:
        ValueError: it is too short.

    """
    if len(attribute) < SMALLEST_ATTRIBUTE:
        raise ValueError(f"an event's attributes have {len(attribute)} bytes")
    *_, sample, _, flags = ATTRIBUTE.unpack_from(attribute)
    words = tuple(bit for bit in _ORDER if sample & bit) if flags & SAMPLE_ID_ALL else ()
    return PerfEvent(words, tuple(ids))


class SampleIds:
    """The reader of the ends of records, of any event."""

    def __init__(self) -> None:
        self._events: list[PerfEvent] = []
        self._by_id: dict[int, PerfEvent] = {}
        self._alike = True

    def add(self, event: PerfEvent) -> None:
        """Add an event."""
        self._events.append(event)
        self._by_id.update(dict.fromkeys(event.ids, event))
        self._alike = event.words == self._events[0].words and self._alike

    def of(self, record: bytes) -> SampleId:
        """Read the end of a record.

        Raises:
            ValueError: events differ, and the record does not say whose it is; or it is too short.

        """
        if not self._events:
            raise ValueError("a record before any event")
        event = self._events[0] if self._alike else self._owner(record)
        size = event.size
        if len(record) < size:
            raise ValueError(f"a record of {len(record) + 8} bytes, shorter than its sample_id")
        values = dict(zip(event.words, struct.unpack(f"<{size // 8}Q", record[len(record) - size :]), strict=True))
        pid, tid = _halves(values.get(Sample.TID))
        cpu, _ = _halves(values.get(Sample.CPU))
        return SampleId(size=size, time=values.get(Sample.TIME, 0), cpu=cpu, pid=pid, tid=tid)

    def _owner(self, record: bytes) -> PerfEvent:
        if not all(Sample.IDENTIFIER in event.words for event in self._events) or len(record) < 8:
            raise ValueError("events have different sample types, and records do not say whose they are")
        (number,) = struct.unpack("<Q", record[-8:])
        try:
            return self._by_id[number] if number else self._events[0]
        except KeyError:
            raise ValueError(f"a record of event {number}, which the file does not have") from None


def _halves(value: int | None) -> tuple[int, int]:
    """Return the two signed 32-bit halves of a number, the low half first; -1 if there is none."""
    if value is None:
        return -1, -1
    return _signed(value & 0xFFFFFFFF), _signed(value >> 32)


def _signed(half: int) -> int:
    return half - (1 << 32) if half >> 31 else half
