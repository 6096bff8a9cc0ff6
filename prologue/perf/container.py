"""A perf.data file: its events, its features, and all of its records, of files and of pipes."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prologue.elf.files import open_regular
from prologue.errors import InputError
from prologue.perf.layout import (
    CPU_MODE,
    FILE_HEADER,
    HOST_KERNEL,
    HOST_USER,
    KERNEL_NAME,
    MAGIC,
    MMAP2,
    MMAP_BUILD_ID,
    OTHER_ENDIAN,
    PIPE_HEADER_SIZE,
    RECORD,
    SECTION,
    VERSION_1,
    Feature,
    OtherDataError,
    RecordKind,
)
from prologue.perf.records import PerfRecord, RecordReader, SampleIds, event_of

_BUILD_ID_SIZE_SAID = 1 << 15  # PERF_RECORD_MISC_BUILD_ID_SIZE
_KERNEL_MAP = KERNEL_NAME.encode()


def is_perf_data(head: bytes) -> bool:
    """Return whether a file with these first bytes is of perf."""
    return head.startswith((MAGIC, OTHER_ENDIAN, VERSION_1))


def data_file(path: Path) -> Path:
    """Return the file of ``perf record``: ``path``, or ``data`` in its directory (``--kcore``).

    Raises:
        InputError: a directory of several files.

    """
    if not path.is_dir():
        return path
    if (path / "data.0").exists():
        raise InputError("was recorded with --threads, which is not read: record without", path=path)
    return path / "data"


@contextmanager
def open_perf_data(path: Path) -> Iterator[PerfFile]:
    """Open a file of ``perf record``, or its directory; damage found while it is open is an ``InputError``.

    Raises:
        InputError: not such a file, of a kind that is not read, or damaged.

    """
    file = data_file(path)
    with open_regular(file) as (fd, size):
        if size < PIPE_HEADER_SIZE:
            raise InputError(f"is too short for perf.data: {size} bytes", path=file)
        with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
            _require_kind(data[:8], file)
            try:
                yield PerfFile(data)
            except OtherDataError as error:
                raise InputError(str(error), path=file) from error
            except (ValueError, struct.error) as error:
                raise InputError(f"damaged perf.data: {error}", path=file) from error


def _require_kind(magic: bytes, path: Path) -> None:
    if magic == MAGIC:
        return
    if magic == OTHER_ENDIAN:
        raise InputError("is the perf.data of a big-endian machine, which is not read", path=path)
    if magic == VERSION_1:
        raise InputError("is perf.data of version 1 (before Linux 3.7), which is not read", path=path)
    raise InputError("is not perf.data", path=path)


class PerfFile:
    """The parts of a file. Attributes and features of a pipe come as records: all are known after ``records``."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.samples = SampleIds()
        self.cpus = 0
        self.build_ids: dict[str, str] = {}  # of the host's files, in hex, by path
        # Of the kernel: build-id in hex, and what uname prints; empty if not known.
        self.build_id = self.release = self.machine = ""

    def records(self) -> Iterator[PerfRecord]:
        """Yield every record in the order of the file, except those of attributes and features.

        Raises:
            ValueError, struct.error: the file is damaged.

        """
        for record in self._records():
            if record.kind == RecordKind.MMAP2:
                self._kernel_map(record)
            yield record

    def _records(self) -> Iterator[PerfRecord]:
        size = int.from_bytes(self.data[8:16], "little")
        if size == PIPE_HEADER_SIZE:
            yield from self._piped()
            return
        if size < FILE_HEADER.size or len(self.data) < FILE_HEADER.size:
            raise ValueError(f"a header of {size} bytes")
        header = FILE_HEADER.unpack_from(self.data)
        attr_size, attrs, data, flags = header[2], header[3:5], header[5:7], header[9:]
        if not data[1]:
            raise OtherDataError("has no data: perf record was interrupted")
        self._attributes(attr_size, self._section(*attrs))
        self._require(*data)
        self._features(data[0] + data[1], sum(word << 64 * index for index, word in enumerate(flags)))
        yield from RecordReader(self.data, data[0], data[0] + data[1], is_pipe=False)

    def _piped(self) -> Iterator[PerfRecord]:
        for record in RecordReader(self.data, PIPE_HEADER_SIZE, len(self.data), is_pipe=True):
            if record.kind == RecordKind.ATTRIBUTE:
                _, size = struct.unpack_from("<II", record.body)
                self.samples.add(event_of(record.body[:size], _numbers(record.body[size:])))
            elif record.kind == RecordKind.FEATURE:
                (number,) = struct.unpack_from("<Q", record.body)
                self._feature(number, record.body[8:])
            elif record.kind == RecordKind.BUILD_ID:
                self._build_id(record.misc, record.body)
            else:
                yield record

    def _section(self, offset: int, size: int) -> bytes:
        self._require(offset, size)
        return self.data[offset : offset + size]

    def _require(self, offset: int, size: int) -> None:
        if offset + size > len(self.data):
            raise ValueError(f"it ends before byte {offset + size:,}: it has {len(self.data):,}")

    def _attributes(self, size: int, attributes: bytes) -> None:
        if size <= SECTION.size or len(attributes) % size or not len(attributes):
            raise ValueError(f"{len(attributes)} bytes of attributes, {size} for each event")
        for at in range(0, len(attributes), size):
            ids = self._section(*SECTION.unpack_from(attributes, at + size - SECTION.size))
            self.samples.add(event_of(attributes[at : at + size - SECTION.size], _numbers(ids)))

    def _features(self, at: int, flags: int) -> None:
        for bit in range(256):
            if not flags >> bit & 1:
                continue
            section = self._section(*SECTION.unpack(self._section(at, SECTION.size)))
            at += SECTION.size
            self._feature(bit, section)

    def _feature(self, number: int, section: bytes) -> None:
        if number in (Feature.RELEASE, Feature.MACHINE):
            (length,) = struct.unpack_from("<I", section)
            text = section[4 : 4 + length].split(b"\0")[0].decode(errors="replace")
            self.release, self.machine = (text, self.machine) if number == Feature.RELEASE else (self.release, text)
        elif number == Feature.CPUS:
            self.cpus, _ = struct.unpack_from("<II", section)  # present, online
        elif number == Feature.BUILD_ID:
            for misc, body in _build_ids(section):
                self._build_id(misc, body)

    def _build_id(self, misc: int, body: bytes) -> None:
        if len(body) < 28:
            raise ValueError(f"a build-id of {len(body)} bytes")
        name = body[28:].split(b"\0")[0].decode(errors="replace")
        size = body[24] if misc & _BUILD_ID_SIZE_SAID else 20
        build_id = body[4 : 4 + min(size, 20)].hex()
        if name == KERNEL_NAME and misc & CPU_MODE == HOST_KERNEL:
            self.build_id = self.build_id or build_id
        elif misc & CPU_MODE == HOST_USER:
            self.build_ids[name] = build_id

    def _kernel_map(self, record: PerfRecord) -> None:
        """Take the kernel's build-id from its own map, where ``--buildid-mmap`` has it."""
        name = record.body[MMAP2.size :]
        if record.misc & (CPU_MODE | MMAP_BUILD_ID) == HOST_KERNEL | MMAP_BUILD_ID and name.startswith(_KERNEL_MAP):
            self.build_id = self.build_id or mapped_build_id(record)


def mapped_build_id(record: PerfRecord) -> str:
    """Return the build-id of an MMAP2 record in hex; empty if it has none."""
    identity = MMAP2.unpack_from(record.body)[5]
    return identity[4 : 4 + min(identity[0], 20)].hex() if record.misc & MMAP_BUILD_ID else ""


def _numbers(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])


def _build_ids(section: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield misc and body of each build-id (``struct build_id_event``): pid, 20 bytes, their number, the name."""
    at = 0
    while at + RECORD.size <= len(section):
        _, misc, size = RECORD.unpack_from(section, at)
        body = section[at + RECORD.size : at + size]
        if size < RECORD.size or len(body) < 28:
            raise ValueError(f"a build-id of {size} bytes")
        yield misc, body
        at += size
