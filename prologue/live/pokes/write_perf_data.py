"""Writes text pokes as a perf.data file, so that perf and decoders of traces can follow text through time."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from prologue.errors import OutputError
from prologue.live.pokes.text_poke import PokeRecording, TextPoke
from prologue.outputs import new_file
from prologue.perf.layout import (
    ATTRIBUTE,
    DUMMY,
    FILE_HEADER,
    HOST_KERNEL,
    KERNEL_NAME,
    MAGIC,
    RECORD,
    SAMPLE_ID_ALL,
    SECTION,
    SOFTWARE,
    TEXT_POKE,
    WANTS_TEXT_POKE,
    Feature,
    RecordKind,
    Sample,
)

_SAMPLE: Final = Sample.TID | Sample.TIME | Sample.CPU | Sample.IDENTIFIER
_ID: Final = 1  # of the only event
_ATTRIBUTE_SIZE: Final = 112  # PERF_ATTR_SIZE_VER5
_DATA_AT: Final = FILE_HEADER.size + 8 + _ATTRIBUTE_SIZE + SECTION.size
_MOST_BYTES: Final = 0xFFFF - RECORD.size - TEXT_POKE.size - 7 - 32  # of one poke, old and new


def write_perf_data(out: Path, recording: PokeRecording) -> None:
    """Write a file with one event, a dummy, whose text pokes are all that it has.

    Raises:
        OutputError: ``out`` cannot be written, or a poke is too long for a record.

    """
    data = b"".join(_poke(poke, out) for poke in recording.pokes)
    if not data:
        raise OutputError("there is nothing to write: no change of text was recorded", path=out)
    features = _features(recording)
    flags = sum(1 << number for number in features)
    attribute = ATTRIBUTE.pack(SOFTWARE, _ATTRIBUTE_SIZE, DUMMY, 0, _SAMPLE, 0, SAMPLE_ID_ALL | WANTS_TEXT_POKE)
    header = FILE_HEADER.pack(
        MAGIC, FILE_HEADER.size, _ATTRIBUTE_SIZE + SECTION.size, FILE_HEADER.size + 8, _ATTRIBUTE_SIZE + SECTION.size,
        _DATA_AT, len(data), 0, 0, flags, 0, 0, 0,
    )  # fmt: skip
    ids = struct.pack("<Q", _ID)
    with new_file(out, mode=0o600) as temporary, temporary.open("wb") as stream:
        stream.write(header + ids + attribute.ljust(_ATTRIBUTE_SIZE, b"\0") + SECTION.pack(FILE_HEADER.size, len(ids)))
        stream.write(data)
        stream.write(_laid_out(features.values(), _DATA_AT + len(data)))


def _poke(poke: TextPoke, out: Path) -> bytes:
    changed = poke.old + poke.new
    if len(changed) > _MOST_BYTES:
        raise OutputError(f"{len(changed):,} bytes at {poke.address:#x} are too many for one record", path=out)
    body = TEXT_POKE.pack(poke.address, len(poke.old), len(poke.new)) + changed
    body += b"\0" * (-len(body) % 8)
    # 0 for what is not known: perf takes -1 for a task or a CPU of its own.
    body += struct.pack("<iiQiIQ", max(poke.pid, 0), max(poke.tid, 0), poke.time, max(poke.cpu, 0), 0, _ID)
    return RECORD.pack(RecordKind.TEXT_POKE, HOST_KERNEL, RECORD.size + len(body)) + body


def _features(recording: PokeRecording) -> dict[Feature, bytes]:
    """Those that are known, in the order of their numbers."""
    features = {}
    if recording.build_id:
        name = (KERNEL_NAME.encode() + b"\0").ljust(24, b"\0")
        body = struct.pack("<i24s", -1, bytes.fromhex(recording.build_id)[:20]) + name
        features[Feature.BUILD_ID] = RECORD.pack(0, HOST_KERNEL, RECORD.size + len(body)) + body
    for number, text in ((Feature.RELEASE, recording.release), (Feature.MACHINE, recording.machine)):
        if text:
            field = (text.encode("utf-8", "backslashreplace") + b"\0").ljust(64, b"\0")
            features[number] = struct.pack("<I", len(field)) + field
    if recording.cpus:
        features[Feature.CPUS] = struct.pack("<II", recording.cpus, recording.cpus)
    return features


def _laid_out(sections: Iterable[bytes], at: int) -> bytes:
    """Where each section is, and then the sections."""
    contents = list(sections)
    table, place = b"", at + SECTION.size * len(contents)
    for content in contents:
        table += SECTION.pack(place, len(content))
        place += len(content)
    return table + b"".join(contents)
