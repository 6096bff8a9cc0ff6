"""What ``prologue probe`` reports, as data and as text."""

from __future__ import annotations

from typing import Any, Final

from prologue.errors import Location
from prologue.insn.disasm import insn_text
from prologue.kernel.kernel import Kernel
from prologue.live.probe.release import rules_of
from prologue.live.probe.verdict import ProbeVerdict

SCHEMA: Final = "prologue.probe/1"


def probe_data(kernel: Kernel, verdicts: list[ProbeVerdict]) -> dict[str, Any]:
    """As documented in docs/json.md."""
    major, minor = rules_of(kernel)
    return {
        "schema": SCHEMA,
        "file": str(kernel.path),
        "release": kernel.release,
        "rules": f"{major}.{minor}",
        "places": [_data(verdict) for verdict in verdicts],
    }


def _data(verdict: ProbeVerdict) -> dict[str, Any]:
    nearest = verdict.nearest
    return {
        "asked": verdict.place.asked,
        "ambiguous": verdict.place.ambiguous,
        **_where(verdict.place.vaddr, verdict.where),
        "word": f"{verdict.word:08x}",
        "answer": verdict.answer,
        "how": verdict.how or None,
        "reasons": [{"reason": name, "text": text} for name, text in verdict.reasons],
        "modules_may": verdict.modules_may,
        "notes": list(verdict.notes),
        "nearest": None if nearest is None else _where(*nearest),
        "event": verdict.event,
    }


def _where(vaddr: int, where: Location) -> dict[str, Any]:
    return {"address": f"{vaddr:#x}", "symbol": where.symbol, "offset": where.symbol_offset}


def probe_text(verdict: ProbeVerdict) -> str:
    """One verdict in a few lines, the answer in the first."""
    insn = insn_text(verdict.word, verdict.place.vaddr)
    lines = [f"{verdict.where}: {summary(verdict)}", f"    {verdict.word:08x}  {insn}"]
    if verdict.place.ambiguous:
        lines.append(f"    {verdict.place.asked} names several places, of which this is one")
    lines += [f"    {note}" for note in verdict.notes]
    if verdict.modules_may:
        lines.append(f"    register_kprobe() of a module may: {verdict.how}")
    return "\n".join(lines)


def summary(verdict: ProbeVerdict) -> str:
    """The answer, why, and the nearest place that can."""
    if verdict.answer == "yes":
        return f"yes, {verdict.how}"
    why = "; ".join(text for _, text in verdict.reasons) or "what alternatives boot applies decides"
    if verdict.answer == "depends" and verdict.how:
        why += f" ({verdict.how} if it can)"
    if verdict.nearest is None:
        return f"{verdict.answer}: {why}; nowhere in this symbol"
    where = verdict.nearest[1]
    return f"{verdict.answer}: {why}; nearest: {where.symbol}+{where.symbol_offset:#x}"
