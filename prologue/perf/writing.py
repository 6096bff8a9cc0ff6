"""perf.data files with one event, as they are written."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from prologue.outputs import new_file
from prologue.perf.layout import (
    ATTRIBUTE,
    AUXTRACE,
    FILE_HEADER,
    HOST_KERNEL,
    KERNEL_NAME,
    MAGIC,
    RECORD,
    SAMPLE_ID_ALL,
    SECTION,
    Feature,
    RecordKind,
    Sample,
)

SAMPLE: Final = Sample.TID | Sample.TIME | Sample.CPU | Sample.IDENTIFIER
"""The fields that ``sample_id`` packs."""
_ID: Final = 1  # of the only event
_ATTRIBUTE_SIZE: Final = 112  # PERF_ATTR_SIZE_VER5
_DATA_AT: Final = FILE_HEADER.size + 8 + _ATTRIBUTE_SIZE + SECTION.size


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAttributes:
    """Fields of ``struct perf_event_attr``; ``sample`` and ``flags`` are added to what every event here has."""

    type: int
    config: int = 0
    period: int = 0
    sample: int = 0
    flags: int = 0

    def pack(self) -> bytes:
        """Pack the attribute."""
        return ATTRIBUTE.pack(
            self.type, _ATTRIBUTE_SIZE, self.config, self.period, SAMPLE | self.sample, 0, SAMPLE_ID_ALL | self.flags
        ).ljust(_ATTRIBUTE_SIZE, b"\0")


class AuxData(NamedTuple):
    """The bytes of an AUX buffer of a CPU, from the beginning of its stream on."""

    cpu: int
    data: bytes

    def pack(self) -> bytes:
        """Pack the AUXTRACE record; in the file, the bytes follow it."""
        return record(RecordKind.AUXTRACE, 0, AUXTRACE.pack(len(self.data), 0, 0, self.cpu, -1, self.cpu) + bytes(4))


def record(kind: int, misc: int, body: bytes) -> bytes:
    """Return a record with its header."""
    return RECORD.pack(kind, misc, RECORD.size + len(body)) + body


def sample_id(*, pid: int = 0, tid: int = 0, time: int = 0, cpu: int = 0) -> bytes:
    """Return the end of every record of the kernel's; unknown fields are 0, as -1 is a task to perf."""
    return struct.pack("<iiQiIQ", pid, tid, time, cpu, 0, _ID)


def padded(name: str) -> bytes:
    """Return a name as records have it: with a zero at its end, and more up to 8 bytes."""
    data = name.encode("utf-8", "backslashreplace") + b"\0"
    return data + bytes(-len(data) % 8)


def text_feature(text: str) -> bytes:
    """Return a feature section that is one string (``perf_header_string``)."""
    data = (text.encode("utf-8", "backslashreplace") + b"\0").ljust(64, b"\0")
    return struct.pack("<I", len(data)) + data


def machine_features(
    *, build_id: str = "", release: str = "", machine: str = "", cpus: int = 0
) -> dict[Feature, bytes]:
    """Return the feature sections of known facts: the kernel's build-id in hex, ``uname -r`` and ``-m``, CPUs."""
    features = {}
    if build_id:
        name = (KERNEL_NAME.encode() + b"\0").ljust(24, b"\0")
        features[Feature.BUILD_ID] = record(
            0, HOST_KERNEL, struct.pack("<i24s", -1, bytes.fromhex(build_id)[:20]) + name
        )
    for number, text in ((Feature.RELEASE, release), (Feature.MACHINE, machine)):
        if text:
            features[number] = text_feature(text)
    if cpus:
        features[Feature.CPUS] = struct.pack("<II", cpus, cpus)
    return features


def event_description(event: EventAttributes, name: str) -> bytes:
    """Return the feature section that names the event."""
    data = struct.pack("<II", 1, _ATTRIBUTE_SIZE) + event.pack() + struct.pack("<I", 1)
    return data + text_feature(name) + struct.pack("<Q", _ID)


def write_perf_file(
    out: Path,
    event: EventAttributes,
    records: Iterable[bytes],
    features: dict[Feature, bytes],
    aux: Sequence[AuxData] = (),
) -> None:
    """Write a file: records, then AUX buffers with their index among the features.

    Raises:
        OutputError: ``out`` cannot be written.

    """
    with new_file(out, mode=0o600) as temporary, temporary.open("wb") as stream:
        stream.seek(_DATA_AT)
        for data in records:
            stream.write(data)
        places = []
        for buffer in aux:
            head = buffer.pack()
            places.append(SECTION.pack(stream.tell(), len(head)))
            stream.write(head)
            stream.write(buffer.data)
        if places:
            features = features | {Feature.AUXTRACE: struct.pack("<Q", len(places)) + b"".join(places)}
        end = stream.tell()
        sections = [features[number] for number in sorted(features)]
        stream.write(_lay_out(sections, end))
        stream.seek(0)
        flags = sum(1 << number for number in features)
        stream.write(_header(end - _DATA_AT, flags) + struct.pack("<Q", _ID))
        stream.write(event.pack() + SECTION.pack(FILE_HEADER.size, 8))


def _header(size: int, flags: int) -> bytes:
    attributes = _ATTRIBUTE_SIZE + SECTION.size
    return FILE_HEADER.pack(
        MAGIC, FILE_HEADER.size, attributes, FILE_HEADER.size + 8, attributes, _DATA_AT, size, 0, 0, flags, 0, 0, 0
    )


def _lay_out(sections: Iterable[bytes], at: int) -> bytes:
    """Lay out sections from offset ``at`` on: the table of their places, then the sections."""
    contents = list(sections)
    table, place = b"", at + SECTION.size * len(contents)
    for content in contents:
        table += SECTION.pack(place, len(content))
        place += len(content)
    return table + b"".join(contents)
