"""A recording of QEMU's as the perf.data that perf record --kcore would have left of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prologue.arrays import U64
from prologue.live.memory.sources import open_memory
from prologue.trace.etm.stream import ProgramText, encode
from prologue.trace.path.programs import Program, decoder_text, running_program
from prologue.trace.readers.recording import load_recording
from prologue.trace.readers.sources import open_trace
from tests.support.cores import core
from tests.support.cs_etm import CsTrace, write

_TRAMPOLINE = 0xFFFFFFFF00000000  # from here on KPTI maps its entry code, which kcore does not have there


def write_recorded(recording: Path, vmlinux: Path, dump: Path, directory: Path) -> dict[int, U64]:
    """Write the directory; return the addresses of what each CPU executed at EL1, as far as the kernel has its text."""
    program = running_program(vmlinux, open_memory(str(dump)), None)
    _, records = load_recording(recording)
    text = ProgramText([(piece.vaddr, np.ascontiguousarray(piece.words)) for piece in program.pieces])
    streams, ran = {}, {}
    for cpu in np.unique(records["cpu"]).tolist():
        made = encode(records[records["cpu"] == cpu], text, (1,))
        streams[cpu] = bytes(made.data)
        ran[cpu] = _addresses(made.starts, made.counts)
    inner = directory / "kcore_dir"
    inner.mkdir(parents=True)
    write(directory / "data", CsTrace(streams=streams, text=_extent(program)))
    pieces = [(vaddr, 0, words.tobytes()) for vaddr, words in text.pieces if vaddr < _TRAMPOLINE]
    (inner / "kcore").write_bytes(core(pieces))
    names = ((name, *program.find(name)[:1]) for name in ("_text", "_stext", "_etext", "_end"))
    (inner / "kallsyms").write_text("".join(f"{vaddr:016x} T {name}\n" for name, vaddr in names))
    (inner / "modules").write_text("")
    return ran


def decoded_addresses(directory: Path, vmlinux: Path) -> dict[int, U64]:
    """What each CPU executed, as we decode it."""
    with open_trace(str(directory)) as trace:
        assert trace.decoded is not None
        program = running_program(vmlinux, open_memory(str(directory)), None)
        trace.decoded.follow(decoder_text(program, None), vmlinux)
        ranges = np.concatenate([batch.ranges for batch in trace.batches])
    found = {}
    for cpu in np.unique(ranges["cpu"]).tolist():
        own = ranges[ranges["cpu"] == cpu]
        found[cpu] = _addresses(own["start"].tolist(), ((own["end"] - own["start"]) // 4).tolist())
    return found


def _addresses(starts: list[int], counts: list[int]) -> U64:
    parts = [
        np.arange(start, start + 4 * count, 4, dtype=np.uint64) for start, count in zip(starts, counts, strict=True)
    ]
    return np.concatenate(parts)


def _extent(program: Program) -> tuple[int, int]:
    start, end = (program.find(name)[0] for name in ("_text", "_etext"))
    return start, end - start
