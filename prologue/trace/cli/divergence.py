"""Text and data of a file that is not what ran: where its decoder would have left the trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from prologue.insn.disasm import insn_text
from prologue.live.system.programs import Program
from prologue.trace.etm.waypoints import Waypoint, find_waypoints
from prologue.trace.path.divergence import Divergences, DivergentWord
from prologue.trace.path.mechanisms import Mechanisms
from prologue.words import at_offset, counted


def place_text(program: Program | None, vaddr: int) -> str:
    """Return symbol, offset and address, or the address alone."""
    name, offset = program.place(vaddr) if program is not None else ("", 0)
    return f"{name}+{offset:#x} ({vaddr:#x})" if name else f"{vaddr:#x}"


def place_data(program: Program | None, vaddr: int | None) -> dict[str, Any]:
    """Return the same for JSON; all is null, or 0, of a place that is not known."""
    name, offset = program.place(vaddr) if program is not None and vaddr is not None else ("", 0)
    return {"vaddr": None if vaddr is None else hex(vaddr), "symbol": name or None, "symbol_offset": offset}


def owner_of(vaddr: int, program: Program, owners: Mechanisms | None) -> str:
    """Name the mechanism that writes a word of the host's kernel."""
    return "" if owners is None else owners.owner(program.own_address(vaddr))


def divergence_lines(divergences: Divergences, program: Program, owners: Mechanisms | None) -> list[str]:
    """Write a line for each word, and what the file would have cost."""
    lines = [_line(word, program, owners) for word in divergences.ordered()]
    if divergences.elsewhere:
        lines.append(f"file diverges {counted(divergences.elsewhere, 'time')} where no word differs")
    if divergences.not_compared:
        lines.append(
            f"{counted(divergences.not_compared, 'recording')} could not be decoded to the end, and is not compared"
        )
    missed, ran = divergences.missed.total(), divergences.ran.total()
    if missed:
        lines.append(
            f"decoded with the file, {missed:,} of {ran:,} instructions ({divergences.share:.2%}) would be missing or "
            "wrong: "
            f"{counted(len(divergences.words), 'word')} of it led the decoder away"
        )
    else:
        lines.append("decoded with the file, no instruction would be another")
    return lines


def divergence_data(divergences: Divergences, program: Program, owners: Mechanisms | None) -> dict[str, Any]:
    """Write the same for JSON."""
    return {
        "words": [_data(word, program, owners) for word in divergences.ordered()],
        "elsewhere": divergences.elsewhere,
        "not_compared": divergences.not_compared,
        "cpus": [
            {"cpu": cpu, "instructions": count, "missed": divergences.missed[cpu]}
            for cpu, count in sorted(divergences.ran.items())
        ],
    }


def _line(word: DivergentWord, program: Program, owners: Mechanisms | None) -> str:
    cpus = f"cpu{'s' * (len(word.cpus) > 1)} {', '.join(map(str, sorted(word.cpus)))}"
    owner = owner_of(word.vaddr, program, owners)
    times = "once" if word.count == 1 else f"{word.count:,} times"
    in_file, ran = _insn(word.word, word.vaddr, program), _insn(word.ran, word.vaddr, program)
    return (
        f"file diverges at {place_text(program, word.vaddr)}: it has {in_file}, {ran} ran "
        f"({times} the first after a synchronisation, {cpus}{f'; {owner}' if owner else ''})"
    )


def _insn(word: int, vaddr: int, program: Program) -> str:
    """Disassemble an instruction, with the symbol that a branch goes to."""
    text = insn_text(word, vaddr)
    head, mark, target = text.rpartition("#0x")
    if not mark or find_waypoints(np.array([word], np.uint32))[0] not in (Waypoint.DIRECT, Waypoint.CONDITIONAL):
        return text
    name, offset = program.place(int(target, 16))
    return f"{head}{at_offset(name, offset)}" if name else text


def _data(word: DivergentWord, program: Program, owners: Mechanisms | None) -> dict[str, Any]:
    return {
        **place_data(program, word.vaddr),
        "word": f"{word.word:08x}",
        "ran": f"{word.ran:08x}",
        "count": word.count,
        "cpus": sorted(word.cpus),
        "mechanism": owner_of(word.vaddr, program, owners) or None,
    }
