"""Recordings: ranges as ``trace record`` streams them. 64 bytes of header, then 32 bytes for each range, until the end.

There is no end mark and no need to seek: a recording may come through a pipe, and the recording of a machine that was
killed reads up to its last whole record. All is little-endian. docs/recordings.md describes the fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import Bool
from prologue.errors import InputError
from prologue.trace.ranges import (
    AARCH32,
    BATCH,
    EXCEPTION,
    GAP,
    HIGHEST_CPU,
    LONGEST,
    LOST,
    NO_LEVEL,
    NO_VMID,
    RETURN,
    Batch,
    BatchNames,
    Tally,
    TracedTask,
    TraceRanges,
    new_ranges,
)

MAGIC: Final = b"PROTRACE"
VERSION: Final = 1
_HEADER: Final = struct.Struct("<8sIIQII20s4xq")
RECORD: Final = np.dtype(
    [
        ("time", "<u8"),
        ("start", "<u8"),
        ("count", "<u4"),  # instructions; 0: no range, data of this CPU were lost here
        ("cpu", "<u2"),
        ("level", "u1"),
        ("flags", "u1"),
        ("vmid", "<i4"),
        ("task", "<u4"),  # pid, or 0
    ]
)
TraceRecords = npt.NDArray[Any]
"""An array of ``RECORD``, shape (n,)."""
_ID_BYTES: Final = 20
_KNOWN: Final = GAP | EXCEPTION | RETURN | LOST | AARCH32
_HIGHEST_LEVEL: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingHeader:
    """The header of a recording; ``start_time`` in ns since 1970, 0 if unknown; ``build_id`` empty if unknown.

    ``clocked``: times are ns, otherwise only an order. ``slide`` is the kernel's run-time minus its link-time address,
    None if unknown.
    """

    start_time: int = 0
    clocked: bool = True
    cpus: int = 0
    build_id: bytes = b""
    slide: int | None = None

    def pack(self) -> bytes:
        """Return the header's 64 bytes."""
        flags = int(self.clocked) | (self.slide is not None) << 1
        fields = self.start_time, flags, self.cpus, _fit(self.build_id), self.slide or 0
        return _HEADER.pack(MAGIC, VERSION, RECORD.itemsize, *fields)

    def may_be_of(self, build_id: str) -> bool:
        """Return whether a kernel with this build-id (hex, of any size) may have run; yes if the header has none."""
        return not self.build_id or _fit(self.build_id) == _fit(bytes.fromhex(build_id))


def _fit(build_id: bytes) -> bytes:
    """Cut or fill up a build-id for a header: some are shorter (``ld --build-id=md5``), others longer."""
    return build_id[:_ID_BYTES].ljust(_ID_BYTES, b"\0")


def read_header(stream: BinaryIO, name: str) -> RecordingHeader:
    """Read the first 64 bytes.

    Raises:
        InputError: the stream is no recording, or one of another version.

    """
    data = stream.read(_HEADER.size)
    if len(data) < _HEADER.size or not data.startswith(MAGIC):
        raise InputError("is not a recording: its header is missing or cut off", path=name)
    _, version, size, start_time, flags, cpus, build_id, slide = _HEADER.unpack(data)
    if version != VERSION or size != RECORD.itemsize:
        raise InputError(
            f"is a recording of version {version} with records of {size} bytes; this reads version {VERSION} with "
            f"{RECORD.itemsize}",
            path=name,
        )
    known = build_id if any(build_id) else b""
    return RecordingHeader(
        start_time=start_time, clocked=bool(flags & 1), cpus=cpus, build_id=known, slide=slide if flags & 2 else None
    )


def load_recording(path: Path) -> tuple[RecordingHeader, TraceRecords]:
    """Read the header and all records (notes, too) at once: 32 bytes each.

    Raises:
        InputError: the file is no recording, or cannot be read.

    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    with stream:
        header, data = read_header(stream, str(path)), stream.read()
    return header, np.frombuffer(data, RECORD, len(data) // RECORD.itemsize)


def read_records(stream: BinaryIO, account: Tally, cpus: int = 0, name: str = "") -> Iterator[Batch]:
    """Yield the ranges after the header, whose number of ``cpus`` is 0 if unknown.

    A record that cannot be is counted, and leaves a gap.

    Raises:
        InputError: another recording begins where a record should; all before it was given.

    """
    reader, before = _Reader(account, cpus), _HEADER.size
    while data := stream.read(BATCH * RECORD.itemsize):
        second = _second_header(data)
        size = len(data) if second is None else second
        records = np.frombuffer(data, RECORD, size // RECORD.itemsize)
        account.add("record cut at the end", int(size % RECORD.itemsize > 0))
        yield Batch(reader.ranges(records), reader.names.tasks, reader.names.dsos)
        if second is not None:
            raise InputError(
                f"holds another recording from byte {before + second} on: read them one by one, each has its own slide",
                path=name,
            )
        before += len(data)


def _second_header(data: bytes) -> int | None:
    """Find the header of another recording among records, as after ``cat A B``; return its offset."""
    at = data.find(MAGIC)
    while at >= 0:
        if not at % RECORD.itemsize:
            return at
        at = data.find(MAGIC, at + 1)
    return None


def invalid_records(records: TraceRecords, cpus: int = 0) -> Bool:
    """Find ranges that no CPU can execute, and notes of nothing; shape (n,).

    ``cpus`` is the number of CPUs; 0 if that is not known.
    """
    last = min(cpus - 1, HIGHEST_CPU) if cpus else HIGHEST_CPU
    size = records["count"].astype(np.uint64) * np.uint64(4)
    level, start = records["level"], records["start"]
    wrong: Bool = start & np.uint64(3) != 0
    wrong |= ((level > _HIGHEST_LEVEL) & (level != NO_LEVEL)) | (records["vmid"] < NO_VMID)
    wrong |= (size > np.uint64(LONGEST)) | (start + size < start)
    # A hole in a file reads as zeros.
    note_of_nothing = records["flags"] & np.uint8(GAP | EXCEPTION | LOST) == 0
    return np.where(size != 0, wrong, note_of_nothing) | (records["cpu"] > last)


class _Reader:
    def __init__(self, account: Tally, cpus: int) -> None:
        self._account = account
        self._cpus = cpus
        self.names = BatchNames()
        self._joined: set[int] = set()  # CPUs whose last record was a range

    def ranges(self, records: TraceRecords) -> TraceRanges:
        """Return the ranges among records."""
        # A note of the address where an exception will be taken serves writers of packets only.
        exception = records["flags"] & np.uint8(EXCEPTION | GAP | LOST) == np.uint8(EXCEPTION)
        records = records[(records["count"] != 0) | ~exception]
        size = records["count"].astype(np.uint64) * np.uint64(4)
        wrong = invalid_records(records, self._cpus)
        notes = (size == 0) & ~wrong
        self._account.add("places where the recorder lost data", int(notes.sum()))
        self._account.add(
            "records that make no sense: a gap on every CPU", int(wrong.sum()),
            singular="record that makes no sense: a gap on every CPU",
        )  # fmt: skip
        ranges = new_ranges(len(records))
        for name in ("time", "start", "cpu", "vmid", "level"):
            ranges[name] = records[name]
        ranges["end"] = records["start"] + size
        ranges["flags"] = records["flags"] & np.uint8(_KNOWN)
        ranges["task"] = self._tasks(records["task"])
        self._mark_gaps(ranges, notes, wrong)
        kept: TraceRanges = ranges[~notes & ~wrong]
        return kept

    def _mark_gaps(self, ranges: TraceRanges, notes: Bool, wrong: Bool) -> None:
        """Set ``GAP`` for the first range of a CPU, after a note, and for each CPU's first after an invalid record."""
        era = np.cumsum(wrong)
        cpus = np.unique(ranges["cpu"][~wrong]).tolist()
        for cpu in cpus:
            rows = np.flatnonzero((ranges["cpu"] == cpu) & ~wrong)
            gap = np.zeros(len(rows), np.bool_)
            gap[1:] = notes[rows[:-1]] | (era[rows[1:]] != era[rows[:-1]])
            gap[0] = cpu not in self._joined or era[rows[0]] > 0
            ranges["flags"][rows[gap]] |= np.uint8(GAP)
            breaks = notes[rows[-1]] or era[rows[-1]] != era[-1]
            (self._joined.discard if breaks else self._joined.add)(cpu)
        if wrong.any():
            self._joined.intersection_update(cpus)

    def _tasks(self, pids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        rows = np.zeros(len(pids), np.uint32)
        for pid in np.unique(pids).tolist():
            if pid:
                rows[pids == pid] = self.names.task(TracedTask("", pid, pid))
        return rows
