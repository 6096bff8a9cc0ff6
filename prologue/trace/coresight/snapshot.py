"""Snapshot directories of OpenCSD: what ``trc_pkt_lister -ss_dir`` reads.

Form: OpenCSD's HOWTO "ARM CoreSight Snapshot File Format", and ``snapshot_parser.cpp`` (1.5.5) for its open questions.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from prologue.elf.files import open_regular
from prologue.errors import InputError
from prologue.perf.coresight import TraceProtocol, TraceUnit
from prologue.trace.coresight.library import AA64, ALIGNED, FRAME_SYNC, V8, V8_3
from prologue.trace.coresight.process import CodeMemory, TraceSource

INDEX: Final = "snapshot.ini"
_MOST_SETTINGS: Final = 1 << 22  # bytes
_MOST_MEMORY: Final = 1 << 32
_ARCHITECTURES: Final = {
    **dict.fromkeys(("Cortex-A35", "Cortex-A53", "Cortex-A57", "Cortex-A72", "Cortex-A73"), V8),
    **dict.fromkeys(("Cortex-A55", "Cortex-A65", "Cortex-A75", "Cortex-A76", "Cortex-A77"), V8_3),
}
_SPACES: Final = {
    "EL1S": 1, "EL1N": 2, "EL2": 4, "EL2N": 4, "EL3": 8, "EL2S": 0x10, "EL1R": 0x20, "EL2R": 0x40, "ROOT": 0x80,
    "S": 0x19, "N": 6, "R": 0x60, "H": 4, "P": 2, "NP": 2, "SP": 1,
}  # fmt: skip
_DEFAULTS: Final = {"TRCIDR1": 0x4100F403, "TRCDEVARCH": 0x47705A13}
_OLD: Final = ("ETM3", "PTM", "PFT")
_M_PROFILE: Final = re.compile(r"(?i)Cortex-M\d|ARMv[\d.]+-?M")  # of T32 only, with states of its own
IniSections = dict[str, list[tuple[str, str]]]


class _Device(NamedTuple):
    name: str
    kind: str  # "type" in the file
    registers: dict[str, int]
    dumps: tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBuffer:
    """A trace buffer of a snapshot, with its decoders and text; ``left_out`` are trace units without a decoder."""

    name: str
    path: Path
    source: TraceSource
    memory: tuple[CodeMemory, ...]
    left_out: tuple[str, ...]


def is_snapshot(path: Path) -> bool:
    """Return whether a path is a snapshot directory."""
    return path.is_dir() and (path / INDEX).exists()


def read_snapshot(directory: Path) -> list[SnapshotBuffer]:
    """Return the buffers of a snapshot, each with the trace units of cores that are in it.

    Raises:
        InputError: a file is missing or damaged.

    """
    index = _read(directory / INDEX)
    names = [value for _, value in index.get("device_list", ())]
    devices = {device.name: device for device in map(_device, (directory / name for name in names))}
    trace = _value(index, "trace", "metadata")
    if not trace:
        raise InputError("names no trace: [trace] metadata= is missing", path=directory / INDEX)
    return list(_buffers(directory, _read(directory / trace), devices))


def _buffers(directory: Path, trace: IniSections, devices: dict[str, _Device]) -> Iterator[SnapshotBuffer]:
    sources = trace.get("source_buffers", [])
    cores = {source: core for core, source in trace.get("core_trace_sources", ())}
    for section in _value(trace, "trace_buffers", "buffers").split(","):
        part = dict(trace.get(section.strip(), ()))
        name, file = part.get("name"), part.get("file")
        if not name or not file:
            continue
        framed = part.get("format") != "source_data"
        units, left_out, architectures = list[TraceUnit](), list[str](), set[int | None]()
        memory: list[CodeMemory] = []
        for source in (source for source, buffer in sorted(sources) if buffer == name):
            unit, core = devices.get(source), devices.get(cores.get(source, ""))
            if unit is None or core is None:
                continue
            if _M_PROFILE.match(core.kind):
                left_out.append(f"{unit.kind} of {core.kind}, whose M-profile code is not read")
            elif unit.kind.startswith(("ETM4", "ETE")):
                units.append(_unit(unit, directory))
                architectures.add(_architecture(core.kind))
                memory += _memory(core, directory)
            elif unit.kind.startswith(_OLD):
                left_out.append(f"{unit.kind} of {core.kind}")
            if not framed:
                break
        flags = 0 if not framed else FRAME_SYNC if part.get("format") == "dstream_coresight" else ALIGNED
        architecture = architectures.pop() if len(architectures) == 1 else None
        yield SnapshotBuffer(
            name=name,
            path=directory / file,
            source=TraceSource(tuple(units), framed, flags, architecture),
            memory=tuple(memory),
            left_out=tuple(left_out),
        )


def _read(path: Path) -> IniSections:
    """Read the sections of an ini file, each with its keys and values in their order: a key may be there twice."""
    sections: IniSections = {}
    pairs: list[tuple[str, str]] = []
    for line in _bytes(path, 0, None, _MOST_SETTINGS).decode("utf-8", "replace").splitlines():
        text = line.partition(";")[0].strip()
        if text.startswith("[") and "]" in text:
            pairs = sections.setdefault(text[1 : text.index("]")], [])
        elif "=" in text:
            key, _, value = text.partition("=")
            pairs.append((key.strip(), value.strip()))
    return sections


def _value(settings: IniSections, section: str, key: str) -> str:
    return dict(settings.get(section, ())).get(key, "")


def _device(path: Path) -> _Device:
    settings = _read(path)
    listed = ((re.split(r"[(\s]", key)[0].upper(), value) for key, value in settings.get("regs", ()))
    registers = {name: _number(value, path) for name, value in listed if name.startswith("TRC")}
    dumps = tuple(dict(pairs) for section, pairs in settings.items() if section.startswith("dump"))
    return _Device(_value(settings, "device", "name"), _value(settings, "device", "type"), registers, dumps)


def _unit(device: _Device, directory: Path) -> TraceUnit:
    def register(name: str) -> int:
        if name in ("TRCCONFIGR", "TRCTRACEIDR", "TRCIDR0", "TRCIDR2") and name not in device.registers:
            raise InputError(f"the trace unit {device.name} has no {name}", path=directory)
        return device.registers.get(name, _DEFAULTS.get(name, 0)) & 0xFFFFFFFF

    return TraceUnit(
        cpu=register("TRCTRACEIDR") & 0x7F,
        protocol=TraceProtocol.ETE if device.kind.startswith("ETE") else TraceProtocol.ETM4,
        configr=register("TRCCONFIGR"),
        traceidr=register("TRCTRACEIDR"),
        idr0=register("TRCIDR0"),
        idr1=register("TRCIDR1"),
        idr2=register("TRCIDR2"),
        idr8=register("TRCIDR8"),
        devarch=register("TRCDEVARCH"),
    )


def _architecture(core: str) -> int | None:
    if core in _ARCHITECTURES:
        return _ARCHITECTURES[core]
    version = re.fullmatch(r"ARMv(\d)(?:\.(\d))?-A", core)
    if version and version[1] == "8" and int(version[2] or 0) <= 3:
        return V8_3 if version[2] == "3" else V8
    return AA64 if "AA64" in core.upper() or version else None


def _memory(core: _Device, directory: Path) -> Iterator[CodeMemory]:
    for dump in core.dumps:
        path = directory / dump.get("file", "")
        if not path.is_file():  # a snapshot may be passed on without its binaries
            continue
        offset = _number(dump.get("offset", "0"), path)
        length = _number(dump["length"], path) if dump.get("length") else None
        vaddr = _number(dump.get("address", ""), path)
        data = _bytes(path, offset, length, _MOST_MEMORY)
        if data and 0 <= vaddr < 1 << 64:
            yield CodeMemory(vaddr, data, _SPACES.get(dump.get("space", "")))


def _number(text: str, path: Path) -> int:
    try:
        return int(text.strip(), 0)
    except ValueError:
        raise InputError(f"{text.strip()[:40]!r} is no number", path=path) from None


def _bytes(path: Path, offset: int, length: int | None, most: int) -> bytes:
    with open_regular(path) as (fd, size):
        wanted = max(size - offset, 0) if length is None else min(length, max(size - offset, 0))
        if wanted > most:
            raise InputError(f"has more than {most:,} bytes", path=path)
        return os.pread(fd, wanted, offset)
