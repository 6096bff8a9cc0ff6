"""Text pokes of a perf.data file."""

from __future__ import annotations

import struct
from pathlib import Path

from prologue.live.pokes.text_poke import PokeRecording, TextPoke
from prologue.perf.container import PerfFile, open_perf_data
from prologue.perf.layout import CPU_MODE, HOST_KERNEL, TEXT_POKE, RecordKind
from prologue.perf.records import PerfRecord


def read_perf_data(path: Path) -> PokeRecording:
    """Read the text pokes of a file of ``perf record``, or of its directory (``--kcore``).

    Raises:
        InputError: not such a file, of a kind that is not read, or damaged.

    """
    pokes: list[TextPoke] = []
    lost = guests = 0
    with open_perf_data(path) as file:
        for record in file.records():
            if record.kind == RecordKind.LOST:
                lost += struct.unpack_from("<QQ", record.body)[1]
            elif record.kind == RecordKind.TEXT_POKE:
                poke = _poke(file, record)
                if record.misc & CPU_MODE != HOST_KERNEL:
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


def _poke(file: PerfFile, record: PerfRecord) -> TextPoke:
    address, old, new = TEXT_POKE.unpack_from(record.body)
    sample = file.samples.of(record.body)
    changed = record.body[TEXT_POKE.size : TEXT_POKE.size + old + new]
    if TEXT_POKE.size + old + new > len(record.body) - sample.size:
        raise ValueError(f"the text poke at byte {record.at:,} is shorter than its {old} + {new} bytes of text")
    return TextPoke(
        address=address,
        old=changed[:old],
        new=changed[old:],
        time=sample.time,
        cpu=sample.cpu,
        pid=sample.pid,
        tid=sample.tid,
    )
