"""The end of each record: its task, time and CPU."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from prologue.perf.layout import ATTRIBUTE, SAMPLE_ID_ALL, SMALLEST_ATTRIBUTE, Sample

# In this order (struct sample_id in include/uapi/linux/perf_event.h, 6.12), each 8 bytes.
_ORDER: Final = (Sample.TID, Sample.TIME, Sample.ID, Sample.STREAM_ID, Sample.CPU, Sample.IDENTIFIER)


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
        values = dict(zip(event.words, _words(record, size), strict=True))
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


def _words(record: bytes, size: int) -> tuple[int, ...]:
    return struct.unpack(f"<{size // 8}Q", record[len(record) - size :])


def _halves(value: int | None) -> tuple[int, int]:
    """Return the two signed 32-bit halves of a number, the low half first; -1 if there is none."""
    if value is None:
        return -1, -1
    return _signed(value & 0xFFFFFFFF), _signed(value >> 32)


def _signed(half: int) -> int:
    return half - (1 << 32) if half >> 31 else half
