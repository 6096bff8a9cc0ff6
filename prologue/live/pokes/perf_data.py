"""Text pokes of a perf.data file: read, and written for perf and for decoders that follow text through time."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from prologue.errors import OutputError
from prologue.perf.container import PerfFile, open_perf_data
from prologue.perf.layout import (
    CPU_MODE,
    DUMMY,
    HOST_KERNEL,
    RECORD,
    SOFTWARE,
    TEXT_POKE,
    WANTS_TEXT_POKE,
    RecordKind,
)
from prologue.perf.records import PerfRecord
from prologue.perf.writing import EventAttributes, machine_features, record, sample_id, write_perf_file


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPoke:
    """A ``PERF_RECORD_TEXT_POKE``: the bytes at ``address`` before and after.

    Either may be empty: a trampoline that appears has no old bytes, one that goes away no new ones
    (``include/uapi/linux/perf_event.h``, 6.12). ``time`` is in ns of perf's clock.
    """

    address: int
    old: bytes
    new: bytes
    time: int = 0
    cpu: int = -1  # -1: not known
    pid: int = -1
    tid: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PokeRecording:
    """Text pokes in the order of time, and facts of the machine; empty strings are not known."""

    path: str
    pokes: tuple[TextPoke, ...] = field(repr=False)
    machine: str = ""  # as uname -m
    release: str = ""
    build_id: str = ""
    cpus: int = 0
    lost: int = 0  # records, of any kind, that perf says it lost
    guests: int = 0  # pokes of virtual machines' kernels, which are left out


_MOST_BYTES: Final = 0xFFFF - RECORD.size - TEXT_POKE.size - 7 - 32  # of one poke, old and new


def read_perf_data(path: Path) -> PokeRecording:
    """Read the text pokes of a file of ``perf record``, or of its directory (``--kcore``).

    Raises:
        InputError: not such a file, of a kind that is not read, or damaged.

    """
    pokes: list[TextPoke] = []
    lost = guests = 0
    with open_perf_data(path) as file:
        for perf_record in file.records():
            if perf_record.kind == RecordKind.LOST:
                lost += struct.unpack_from("<QQ", perf_record.body)[1]
            elif perf_record.kind == RecordKind.TEXT_POKE:
                poke = _read(file, perf_record)
                if perf_record.misc & CPU_MODE != HOST_KERNEL:
                    guests += 1
                else:
                    pokes.append(poke)
        return PokeRecording(
            path=str(path),
            pokes=tuple(sorted(pokes, key=lambda poke: poke.time)),  # stable: records are not in order of time
            machine=file.machine,
            release=file.release,
            build_id=file.build_id,
            cpus=file.cpus,
            lost=lost,
            guests=guests,
        )


def _read(file: PerfFile, perf_record: PerfRecord) -> TextPoke:
    address, old, new = TEXT_POKE.unpack_from(perf_record.body)
    sample = file.samples.of(perf_record.body)
    changed = perf_record.body[TEXT_POKE.size : TEXT_POKE.size + old + new]
    if TEXT_POKE.size + old + new > len(perf_record.body) - sample.size:
        raise ValueError(f"the text poke at byte {perf_record.at:,} is shorter than its {old} + {new} bytes of text")
    return TextPoke(
        address=address,
        old=changed[:old],
        new=changed[old:],
        time=sample.time,
        cpu=sample.cpu,
        pid=sample.pid,
        tid=sample.tid,
    )


def write_perf_data(out: Path, recording: PokeRecording) -> None:
    """Write a file with one event, a dummy, whose text pokes are all that it has.

    Raises:
        OutputError: ``out`` cannot be written, or a poke is too long for a record.

    """
    records = [_packed(poke, out) for poke in recording.pokes]
    if not records:
        raise OutputError("there is nothing to write: no change of text was recorded", path=out)
    event = EventAttributes(type=SOFTWARE, config=DUMMY, flags=WANTS_TEXT_POKE)
    features = machine_features(
        build_id=recording.build_id, release=recording.release, machine=recording.machine, cpus=recording.cpus
    )
    write_perf_file(out, event, records, features)


def _packed(poke: TextPoke, out: Path) -> bytes:
    changed = poke.old + poke.new
    if len(changed) > _MOST_BYTES:
        raise OutputError(f"{len(changed):,} bytes at {poke.address:#x} are too many for one record", path=out)
    body = TEXT_POKE.pack(poke.address, len(poke.old), len(poke.new)) + changed
    body += b"\0" * (-len(body) % 8)
    sample = sample_id(pid=max(poke.pid, 0), tid=max(poke.tid, 0), time=poke.time, cpu=max(poke.cpu, 0))
    return record(RecordKind.TEXT_POKE, HOST_KERNEL, body + sample)
