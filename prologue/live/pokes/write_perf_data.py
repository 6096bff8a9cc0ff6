"""Text pokes as a perf.data file, so that perf and decoders of traces can follow text through time."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from prologue.errors import OutputError
from prologue.live.pokes.text_poke import PokeRecording, TextPoke
from prologue.perf.layout import DUMMY, HOST_KERNEL, RECORD, SOFTWARE, TEXT_POKE, WANTS_TEXT_POKE, RecordKind
from prologue.perf.writing import EventAttributes, machine_features, record, sample_id, write_perf_file

_MOST_BYTES: Final = 0xFFFF - RECORD.size - TEXT_POKE.size - 7 - 32  # of one poke, old and new


def write_perf_data(out: Path, recording: PokeRecording) -> None:
    """Write a file with one event, a dummy, whose text pokes are all that it has.

    Raises:
        OutputError: ``out`` cannot be written, or a poke is too long for a record.

    """
    records = [_poke(poke, out) for poke in recording.pokes]
    if not records:
        raise OutputError("there is nothing to write: no change of text was recorded", path=out)
    event = EventAttributes(type=SOFTWARE, config=DUMMY, flags=WANTS_TEXT_POKE)
    features = machine_features(
        build_id=recording.build_id, release=recording.release, machine=recording.machine, cpus=recording.cpus
    )
    write_perf_file(out, event, records, features)


def _poke(poke: TextPoke, out: Path) -> bytes:
    changed = poke.old + poke.new
    if len(changed) > _MOST_BYTES:
        raise OutputError(f"{len(changed):,} bytes at {poke.address:#x} are too many for one record", path=out)
    body = TEXT_POKE.pack(poke.address, len(poke.old), len(poke.new)) + changed
    body += b"\0" * (-len(body) % 8)
    sample = sample_id(pid=max(poke.pid, 0), tid=max(poke.tid, 0), time=poke.time, cpu=max(poke.cpu, 0))
    return record(RecordKind.TEXT_POKE, HOST_KERNEL, body + sample)
