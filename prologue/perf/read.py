"""Reads text pokes from a perf.data file."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from prologue.elf.files import open_regular
from prologue.errors import InputError
from prologue.perf.layout import (
    CPU_MODE,
    FILE_HEADER,
    HOST_KERNEL,
    KERNEL_NAME,
    MAGIC,
    OTHER_ENDIAN,
    PIPE_HEADER_SIZE,
    RECORD,
    SECTION,
    TEXT_POKE,
    VERSION_1,
    Feature,
    RecordKind,
)
from prologue.perf.poke import PokeRecording, TextPoke
from prologue.perf.records import PerfRecord, RecordReader
from prologue.perf.sample_id import SampleIds, event_of

_BUILD_ID_SIZE_SAID = 1 << 15  # PERF_RECORD_MISC_BUILD_ID_SIZE


def is_perf_data(head: bytes) -> bool:
    """Whether a file that begins so is of perf."""
    return head.startswith((MAGIC, OTHER_ENDIAN, VERSION_1))


def read_perf_data(path: Path) -> PokeRecording:
    """Read the text pokes of a file of ``perf record``, or of its directory (``--kcore``).

    Raises:
        InputError: not such a file, of a kind that is not read, or damaged.

    """
    file = path / "data" if path.is_dir() else path
    if path.is_dir() and (path / "data.0").exists():
        raise InputError("was recorded with --threads, which is not read: record without", path=path)
    with open_regular(file) as (fd, size):
        if size < PIPE_HEADER_SIZE:
            raise InputError(f"is too short for perf.data: {size} bytes", path=file)
        with mmap.mmap(fd, size, access=mmap.ACCESS_READ) as data:
            _require_kind(data[:8], file)
            reader = _Reader(data)
            try:
                reader.read()
            except (ValueError, struct.error) as error:
                raise InputError(f"damaged perf.data: {error}", path=file) from error
    return reader.recording(str(path))


def _require_kind(magic: bytes, path: Path) -> None:
    if magic == MAGIC:
        return
    if magic == OTHER_ENDIAN:
        raise InputError("is the perf.data of a big-endian machine, which is not read", path=path)
    if magic == VERSION_1:
        raise InputError("is perf.data of version 1 (before Linux 3.7), which is not read", path=path)
    raise InputError("is not perf.data", path=path)


class _Reader:
    """Collects what one file says."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._samples = SampleIds()
        self._pokes: list[TextPoke] = []
        self._said: dict[Feature, str] = {}
        self._cpus = self._lost = self._guests = 0

    def recording(self, path: str) -> PokeRecording:
        """What was read."""
        return PokeRecording(
            path=path,
            pokes=tuple(sorted(self._pokes, key=lambda poke: poke.time)),  # stable: records are not in order of time
            machine=self._said.get(Feature.MACHINE, ""),
            release=self._said.get(Feature.RELEASE, ""),
            build_id=self._said.get(Feature.BUILD_ID, ""),
            cpus=self._cpus,
            lost=self._lost,
            guests=self._guests,
        )

    def read(self) -> None:
        size = int.from_bytes(self._data[8:16], "little")
        if size == PIPE_HEADER_SIZE:
            self._records(size, len(self._data), is_pipe=True)
            return
        if size < FILE_HEADER.size:
            raise ValueError(f"a header of {size} bytes")
        header = FILE_HEADER.unpack_from(self._data)
        attr_size, attrs, data, flags = header[2], header[3:5], header[5:7], header[9:]
        if not data[1]:
            raise ValueError("it has no data: perf record was interrupted")
        self._attributes(attr_size, self._section(*attrs))
        self._require(*data)
        self._features(data[0] + data[1], sum(word << 64 * index for index, word in enumerate(flags)))
        self._records(data[0], data[0] + data[1], is_pipe=False)

    def _section(self, offset: int, size: int) -> bytes:
        self._require(offset, size)
        return self._data[offset : offset + size]

    def _require(self, offset: int, size: int) -> None:
        if offset + size > len(self._data):
            raise ValueError(f"it ends before byte {offset + size:,}: it has {len(self._data):,}")

    def _attributes(self, size: int, attributes: bytes) -> None:
        if size <= SECTION.size or len(attributes) % size or not len(attributes):
            raise ValueError(f"{len(attributes)} bytes of attributes, {size} for each event")
        for at in range(0, len(attributes), size):
            ids = self._section(*SECTION.unpack_from(attributes, at + size - SECTION.size))
            self._samples.add(event_of(attributes[at : at + size - SECTION.size], _numbers(ids)))

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
            self._said[Feature(number)] = section[4 : 4 + length].split(b"\0")[0].decode(errors="replace")
        elif number == Feature.CPUS:
            _, self._cpus = struct.unpack_from("<II", section)  # online, available
        elif number == Feature.BUILD_ID:
            self._said[Feature.BUILD_ID] = _kernel_build_id(section)

    def _records(self, start: int, stop: int, *, is_pipe: bool) -> None:
        for record in RecordReader(self._data, start, stop, is_pipe=is_pipe):
            if record.kind == RecordKind.TEXT_POKE:
                self._poke(record)
            elif record.kind == RecordKind.LOST:
                self._lost += struct.unpack_from("<QQ", record.body)[1]
            elif is_pipe and record.kind == RecordKind.ATTRIBUTE:
                self._pipe_attribute(record.body)
            elif is_pipe and record.kind == RecordKind.FEATURE:
                (number,) = struct.unpack_from("<Q", record.body)
                self._feature(number, record.body[8:])

    def _pipe_attribute(self, body: bytes) -> None:
        _, size = struct.unpack_from("<II", body)
        self._samples.add(event_of(body[:size], _numbers(body[size:])))

    def _poke(self, record: PerfRecord) -> None:
        address, old, new = TEXT_POKE.unpack_from(record.body)
        sample = self._samples.of(record.body)
        changed = record.body[TEXT_POKE.size : TEXT_POKE.size + old + new]
        if TEXT_POKE.size + old + new > len(record.body) - sample.size:
            raise ValueError(f"the text poke at byte {record.at:,} is shorter than its {old} + {new} bytes of text")
        if record.misc & CPU_MODE != HOST_KERNEL:
            self._guests += 1
            return
        self._pokes.append(
            TextPoke(
                address=address,
                old=changed[:old],
                new=changed[old:],
                time=sample.time,
                cpu=sample.cpu,
                pid=sample.pid,
                tid=sample.tid,
            )
        )


def _numbers(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) // 8}Q", data[: len(data) // 8 * 8])


def _kernel_build_id(section: bytes) -> str:
    """The host kernel's, of all that the section has (``struct build_id_event``)."""
    for misc, body in _build_ids(section):
        name = body[28:].split(b"\0")[0].decode(errors="replace")
        if name == KERNEL_NAME and misc & CPU_MODE == HOST_KERNEL:
            size = body[24] if misc & _BUILD_ID_SIZE_SAID else 20
            return body[4 : 4 + min(size, 20)].hex()
    return ""


def _build_ids(section: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + RECORD.size <= len(section):
        _, misc, size = RECORD.unpack_from(section, at)
        body = section[at + RECORD.size : at + size]
        if size < RECORD.size or len(body) < 28:
            raise ValueError(f"a build-id of {size} bytes")
        yield misc, body
        at += size
