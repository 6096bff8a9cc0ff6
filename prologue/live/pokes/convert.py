"""Text pokes as recorded writes, and recorded writes as text pokes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from prologue.errors import InputError
from prologue.live.pokes.perf_data import PokeRecording, TextPoke
from prologue.live.pokes.recording import (
    NO_CPU,
    WITHIN,
    Capability,
    Flag,
    Header,
    Loss,
    Recording,
    Rows,
    Trailer,
    empty_rows,
)
from prologue.words import counted

ARM64: Final = "aarch64"
_WORD: Final = 4  # bytes


def writes_of(perf: PokeRecording) -> Recording:
    """Make recorded writes of pokes, one for each new word; other machines' pokes have no words and become a note.

    Raises:
        InputError: the machine is an arm64 one, but changes are not of whole words.

    """
    odd = next((p for p in perf.pokes if any(n % _WORD for n in (p.address, len(p.old), len(p.new)))), None)
    machine = perf.machine or ("unknown" if odd else ARM64)
    if machine == ARM64 and odd:
        raise InputError(
            f"says aarch64, and has a change of {len(odd.old)} to {len(odd.new)} bytes at {odd.address:#x},"
            " which is not arm64 text",
            path=perf.path,
        )
    rows = _rows(perf) if machine == ARM64 else empty_rows(0)
    sees: tuple[Capability, ...] = ("old",) if (~rows["flags"] & Flag.OLD_UNKNOWN).any() else ()
    return Recording(
        perf.path,
        Header(
            source="perf", machine=machine, clock="ns", sees=sees,
            release=perf.release, build_id=perf.build_id, cpus=perf.cpus,
        ),
        Trailer(lost=(Loss("perf's records", perf.lost),) if perf.lost else (), notes=tuple(_notes(perf, machine))),
        rows,
    )  # fmt: skip


def pokes_of(recording: Recording) -> PokeRecording:
    """Make pokes of recorded writes; the two words of a literal become one.

    If it is not known when exactly a word was written, the time is the last that it can be: only after that does the
    writer clean the caches, so that CPUs fetch the word anew (aarch64_insn_patch_text_nosync; arch/arm64/kernel/insn.c,
    5.10; patching.c, 6.1 to 7.2).

    Raises:
        InputError: it is not of an arm64 machine.

    """
    if recording.header.machine != ARM64:
        raise InputError(f"was recorded on {recording.header.machine}: perf itself has its pokes", path=recording.path)
    pokes: list[TextPoke] = []
    for poke, is_literal in _pokes(recording.rows):
        last = pokes[-1] if pokes else None
        if is_literal and last and _is_first_half(last, poke):
            pokes[-1] = replace(last, old=last.old + poke.old, new=last.new + poke.new)
        else:
            pokes.append(poke)
    origin = recording.header
    return PokeRecording(
        path=recording.path, pokes=tuple(pokes), machine=origin.machine, release=origin.release,
        build_id=origin.build_id, cpus=origin.cpus,
    )  # fmt: skip


def _rows(perf: PokeRecording) -> Rows:
    """Make a row of each new word."""
    rows = empty_rows(sum(len(poke.new) // _WORD for poke in perf.pokes))
    at = 0
    for poke in perf.pokes:
        part = rows[at : at + len(poke.new) // _WORD]
        if poke.cpu >= NO_CPU or max(poke.time, poke.address) >> 64:  # a row has no room for more
            name = f"a text poke at {poke.address:#x} on CPU {poke.cpu} at {poke.time:,} ns"
            raise InputError(f"damaged: {name}: no machine has that", path=perf.path)
        part["time"], part["cpu"] = poke.time, NO_CPU if poke.cpu < 0 else poke.cpu
        part["address"] = poke.address + np.arange(len(part), dtype=np.uint64) * np.uint64(_WORD)
        part["new"] = np.frombuffer(poke.new, "<u4")
        if len(poke.old) == len(poke.new):
            part["old"] = np.frombuffer(poke.old, "<u4")
        else:
            part["flags"] = Flag.OLD_UNKNOWN
        at += len(part)
    return rows


def _notes(perf: PokeRecording, machine: str) -> Iterator[str]:
    if machine != ARM64:
        yield f"{counted(len(perf.pokes), 'change')} of text, by a machine that is not arm64"
    elif not perf.machine:
        yield "perf.data does not name the machine: taken for arm64, since all changes are whole words"
    if gone := sum(not poke.new for poke in perf.pokes):
        yield f"{counted(gone, 'piece')} of code that went away"
    if perf.guests:
        ending = "of the text of virtual machines"
        yield counted(perf.guests, f"change {ending} was left out", plural=f"changes {ending} were left out")


def _pokes(rows: Rows) -> Iterator[tuple[TextPoke, bool]]:
    """Yield a poke for each row, and whether it is data."""
    names = ("address", "old", "new", "cpu", "flags")
    times = np.maximum.accumulate(rows["time"] + np.uint64(WITHIN) * rows["within"])
    columns = (rows[name].tolist() for name in names)
    for address, old, new, cpu, flags, time in zip(*columns, times.tolist(), strict=True):
        known = b"" if flags & Flag.OLD_UNKNOWN else old.to_bytes(_WORD, "little")
        writer = -1 if cpu == NO_CPU else cpu
        yield (
            TextPoke(address=address, old=known, new=new.to_bytes(_WORD, "little"), time=time, cpu=writer),
            bool(flags & Flag.LITERAL),
        )


def _is_first_half(last: TextPoke, poke: TextPoke) -> bool:
    """Return whether both are one literal: 64 bits at a multiple of 8 (``aarch64_insn_write_literal_u64``, 6.3 on)."""
    return (
        len(last.new) == _WORD and last.address % 8 == 0 and last.address + _WORD == poke.address
        and (last.time, last.cpu) == (poke.time, poke.cpu) and bool(last.old) == bool(poke.old)
    )  # fmt: skip
