"""The records of a perf.data file, one after the other: of files, of pipes, and compressed ones."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Final, NamedTuple

from prologue.perf.layout import RECORD, RecordKind

_MOST_UNPACKED: Final = 1 << 30  # bytes, of all compressed records together


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
            here, self._at = self._at, self._at + RECORD.size + len(record.body) + self._after(record)
            if record.kind in (RecordKind.COMPRESSED, RecordKind.COMPRESSED2):
                yield from self._unpacked(record, here)
            else:
                yield record
        if self._at > self._stop:
            raise ValueError("the last record's data are cut off")
        if self._unpacker and self._unpacker.rest:
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

    def _unpacked(self, record: PerfRecord, here: int) -> Iterator[PerfRecord]:
        payload = record.body
        if record.kind == RecordKind.COMPRESSED2:
            payload = payload[8 : 8 + _number(record, 8)]
        self._unpacker = self._unpacker or Unpacker()
        data = self._unpacker.add(payload, here)
        at = 0
        while len(data) - at >= RECORD.size:
            size = RECORD.unpack_from(data, at)[2]
            if size >= RECORD.size and size > len(data) - at:
                break
            yield self._next(data, at, len(data))._replace(at=here)
            at += size
        self._unpacker.rest = data[at:]


class Unpacker:
    """The stream of compressed records; ``rest`` is the start of a record that is not whole yet."""

    def __init__(self) -> None:
        import zstandard

        self._stream = zstandard.ZstdDecompressor(max_window_size=128 << 20).decompressobj()
        self._error = zstandard.ZstdError
        self._total = 0
        self.rest = b""

    def add(self, payload: bytes, at: int) -> bytes:
        """Unpack one more compressed record; return ``rest``, which was not consumed yet, and its bytes."""
        try:
            more = self._stream.decompress(payload)
        except self._error as error:
            raise ValueError(f"the compressed record at byte {at:,} does not unpack") from error
        self._total += len(more)
        if self._total > _MOST_UNPACKED:
            raise ValueError("compressed records hold more than 1 GiB")
        return self.rest + more


def _number(record: PerfRecord, size: int) -> int:
    if len(record.body) < size:
        raise ValueError(f"the record at byte {record.at:,} is too short")
    return int.from_bytes(record.body[:size], "little")
