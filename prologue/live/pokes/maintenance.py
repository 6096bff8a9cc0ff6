"""Maintenance after a write to instructions that another CPU may execute, and the steps that are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prologue.live.pokes.recording import Maintenance

_IDC, _DIC = 1 << 28, 1 << 29
_NAMES: Final = {
    Maintenance.MORE: "...", Maintenance.DC_ELSEWHERE: "DC of another line",
    Maintenance.IC_ELSEWHERE: "IC IVAU of another line",
}  # fmt: skip
# IC IALLU is of one CPU: it invalidates nothing of others.
_IC: Final = (Maintenance.IC_IVAU, Maintenance.IC_IALLUIS)


def missing_maintenance(steps: Sequence[Maintenance], ctr: int | None) -> str:
    """Name the first step that is missing after a write; empty if all of them come in their order.

    DC to the point of unification, DSB, IC, DSB, ISB; CTR_EL0.IDC makes the DC needless and DIC the IC. Without a
    known ``ctr`` both are wanted. Steps of other kinds between them do not matter, also DC and IC IVAU for other lines.
    Steps after the last digit that the form has room for count as done.
    """
    ctr = ctr or 0
    wanted: list[tuple[str, tuple[Maintenance, ...]]] = []
    if not ctr & _IDC:
        wanted.append(("no DC to the point of unification", (Maintenance.DC,)))
    wanted.append(("no DSB before the IC" if not ctr & _DIC else "no DSB", (Maintenance.DSB,)))
    if not ctr & _DIC:
        wanted += [("no IC IVAU or IC IALLUIS", _IC), ("no DSB after the IC", (Maintenance.DSB,))]
    wanted.append(("no ISB", (Maintenance.ISB,)))
    at = 0
    for text, kinds in wanted:
        while at < len(steps) and steps[at] not in (*kinds, Maintenance.MORE):
            at += 1
        if at == len(steps):
            return text + _elsewhere(kinds, steps)
        at += steps[at] is not Maintenance.MORE
    return ""


def _elsewhere(kinds: tuple[Maintenance, ...], steps: Sequence[Maintenance]) -> str:
    others = {Maintenance.DC: Maintenance.DC_ELSEWHERE, Maintenance.IC_IVAU: Maintenance.IC_ELSEWHERE}
    return " (for its line)" if others.get(kinds[0]) in steps else ""


def steps_text(steps: Sequence[Maintenance]) -> str:
    """List steps as in ``DC, DSB, IC IVAU, DSB, ISB``."""
    return ", ".join(_NAMES.get(step, step.name.replace("_", " ")) for step in steps) or "nothing"
