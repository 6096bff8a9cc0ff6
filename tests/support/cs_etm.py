"""perf.data with a CoreSight trace, as perf record writes it on arm64: for our reader, and for perf itself.

Form: tools/perf/Documentation/perf.data-file-format.txt, tools/perf/util/cs-etm.h (6.12); frames: Arm CoreSight
architecture specification, "formatter".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PMU: Final = 8  # type of the event, as the kernel numbers its PMUs
ETM4, ETE = 0x4040404040404040, 0x5050505050505050
_RAW: Final = 0x100
_ATTR: Final = 128
_HEADER: Final = 104
_TID, _TIME, _CPU, _IDENTIFIER = 1 << 1, 1 << 2, 1 << 7, 1 << 16
_KERNEL: Final = 1
_REGISTERS: Final = (0x28000EA1, 0x4100F423)  # IDR0, IDR1 of an ETMv4.2


@dataclass(slots=True, kw_only=True)
class CsTrace:
    """What goes into a file; streams are bytes of trace units, by CPU."""

    streams: dict[int, bytes]
    text: tuple[int, int]  # address of _text, size
    raw: bool = False
    version: int = 1
    configr: int = 0
    idr2: int = 0x888
    comms: dict[int, str] = field(default_factory=dict)
    hardware_ids: bool = False
    ids: dict[int, int] = field(default_factory=dict)
    parts: int = 1  # AUX records of each CPU
    flags: int = 0
    extra: Sequence[bytes] = ()  # records, before the data
    index_count: bool = True  # perf's index has one, simpleperf's has none
    magic: int = ETM4
    timed: int | None = None  # TS_SOURCE
    build_id: str = ""
    cpus: Sequence[int] = ()  # of the description, if not those of the streams


def framed(data: bytes, number: int) -> bytes:
    """Frames of 16 bytes with one source's data."""
    out = bytearray()
    at = 0
    while at < len(data):
        size = min(14, len(data) - at)
        size -= size % 2 == 0 and size < 14  # what follows the data is a change of ID, which has an even place
        frame, aux = bytearray(16), 0
        frame[0] = number << 1 | 1
        for place, byte in enumerate(data[at : at + size], 1):
            frame[place] = byte if place % 2 else byte & 0xFE
            aux |= 0 if place % 2 else (byte & 1) << place // 2
        if size < 14:
            frame[size + 1] = 1  # ID 0: nothing
        frame[15] = aux
        out += frame
        at += size
    return bytes(out)


def write(path: Path, trace: CsTrace, *, pipe: bool = False) -> Path:
    """Write the file, or with ``pipe`` what perf record -o - writes."""
    ids = trace.ids or {cpu: 0x10 + 2 * cpu for cpu in trace.streams}
    records = [_info(trace, ids), _map(trace), *trace.extra]
    records += [
        record(3, 0, struct.pack("<ii", pid, pid) + _name(comm) + _sample(pid, 0, 0))
        for pid, comm in trace.comms.items()
    ]
    if trace.hardware_ids:
        records += [record(21, 0, struct.pack("<Q", ids[cpu]) + _sample(0, 1, cpu)) for cpu in trace.streams]
    buffers: list[tuple[bytes, bytes]] = []
    for cpu, stream in trace.streams.items():
        data = stream if trace.raw else framed(stream, ids[cpu])
        for offset, part in _split(data, trace.parts):
            flags = trace.flags | (_RAW if trace.raw else 0)
            records.append(
                record(11, 0, struct.pack("<QQQ", offset, len(part), flags) + _sample(0, 1000 + offset, cpu))
            )
            head = struct.pack("<QQQIiiI", len(part), offset, 1, cpu, -1, cpu, 0)
            buffers.append((record(71, 0, head), part))
    if pipe:
        parts = [struct.pack("<8sQ", b"PERFILE2", 16), record(64, 0, _attribute() + struct.pack("<Q", 1)), *records]
        path.write_bytes(b"".join([*parts, *(head + part for head, part in buffers)]))
        return path
    start = _HEADER + 8 + _ATTR + 16
    data, index = b"".join(records), []
    for head, part in buffers:
        index.append(struct.pack("<QQ", start + len(data), len(head)))
        data += head + part
    feature = (struct.pack("<Q", len(index)) if trace.index_count else b"") + b"".join(index)
    arch = struct.pack("<I", 64) + b"aarch64".ljust(64, b"\0")
    sections = [(6, arch), (18, feature)]
    if trace.build_id:
        name = b"[kernel.kallsyms]".ljust(24, b"\0")
        sections.insert(0, (2, record(0, _KERNEL, struct.pack("<i24s", -1, bytes.fromhex(trace.build_id)) + name)))
    table, contents, at = b"", b"", start + len(data) + 16 * len(sections)
    for _, content in sections:
        table += struct.pack("<QQ", at + len(contents), len(content))
        contents += content
    bits = sum(1 << number for number, _ in sections)
    places = (_HEADER, _ATTR + 16, _HEADER + 8, _ATTR + 16, start, len(data), 0, 0, bits, 0, 0, 0)
    header = struct.pack("<8s12Q", b"PERFILE2", *places) + struct.pack("<Q", 1)
    path.write_bytes(header + _attribute() + struct.pack("<QQ", _HEADER, 8) + data + table + contents)
    return path


def record(kind: int, misc: int, body: bytes) -> bytes:
    """A record with its header."""
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def sample(tid: int, time: int, cpu: int) -> bytes:
    """The end of a record."""
    return _sample(tid, time, cpu)


def _sample(tid: int, time: int, cpu: int) -> bytes:
    return struct.pack("<iiQIIQ", tid, tid, time, cpu, 0, 1)


def _attribute() -> bytes:
    kind = 1 | _TID | _TIME | _CPU | _IDENTIFIER  # perf prints branches for events with IP only
    return struct.pack("<IIQQQQQ", PMU, _ATTR, 0, 1, kind, 0, 1 << 18 | 1 << 8).ljust(_ATTR, b"\0")


def _info(trace: CsTrace, ids: dict[int, int]) -> bytes:
    cpus = list(trace.cpus) or list(trace.streams)
    words = [trace.version, PMU << 32 | len(cpus), 0]
    for cpu in cpus:
        number = ids.get(cpu, 0x70) if not trace.hardware_ids else 0x7F
        values = [trace.configr, number, *_REGISTERS, trace.idr2, 0, 0xCC]
        if trace.magic == ETE:
            values.append(0x47705A13)
        if trace.timed is not None:
            values.append(trace.timed)
        words += [trace.magic, cpu, *([len(values)] if trace.version else []), *values]
    return record(70, 0, struct.pack(f"<II{len(words)}Q", 3, 0, *words))


def _map(trace: CsTrace) -> bytes:
    start, size = trace.text
    return record(
        1,
        _KERNEL,
        struct.pack("<iiQQQ", -1, 0, start, size, start) + _name("[kernel.kallsyms]_text") + _sample(0, 0, 0),
    )


def _name(name: str) -> bytes:
    data = name.encode() + b"\0"
    return data + bytes(-len(data) % 8)


def _split(data: bytes, parts: int) -> Iterable[tuple[int, bytes]]:
    """Offset and bytes of each AUX record, of whole frames."""
    size = -(-len(data) // parts // 16) * 16 or 16
    yield from ((at, data[at : at + size]) for at in range(0, len(data), size))
