"""Violations of rules by groups of recorded writes, and the maintenance that is missing after a live one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from prologue.insn import cmodx
from prologue.live.pokes.recording import Maintenance
from prologue.live.pokes.write_groups import FirstRun, PriorRun, WriteGroup
from prologue.rules.base import Severity

_NOT_KNOWN: Final = "; whether a CPU had executed it is not known"
_CALM: Final = "write it while one CPU runs or in stop_machine; live, only instructions that the list has"
_AFTERWARDS: Final = {
    FirstRun.NOT_KNOWN: "whether the CPUs that did so afterwards had synchronised is not known",
    FirstRun.NONE: "nor did one afterwards",
    FirstRun.SYNCED: "and each that did so afterwards had synchronised before",
    FirstRun.UNSYNCED: "and one that did so afterwards had not synchronised before",
}

_IDC, _DIC = 1 << 28, 1 << 29
_NAMES: Final = {
    Maintenance.MORE: "...", Maintenance.DC_ELSEWHERE: "DC of another line",
    Maintenance.IC_ELSEWHERE: "IC IVAU of another line",
}  # fmt: skip
# IC IALLU is of one CPU: it invalidates nothing of others.
_IC: Final = (Maintenance.IC_IVAU, Maintenance.IC_IALLUIS)


class Violation(NamedTuple):
    """A violation of a rule by a group of writes.

    ``severity`` is set if it is less than the rule's. ``open`` is the reason why the rule cannot decide; empty if it
    can. ``fix`` is the advice, if it is not the rule's.
    """

    message: str
    severity: Severity | None = None
    open: str = ""
    fix: str = ""


def _unlisted(group: WriteGroup) -> Violation | None:
    """Check PL308: live writes of instructions that a CPU had executed, or may have; PL513 has the others."""
    if not group.unlisted or group.executed is PriorRun.NEVER:
        return None
    unknown = group.executed is PriorRun.NOT_KNOWN
    if unknown and group.writer.before_use:
        return None
    return Violation(_unlisted_transition(group) + (_NOT_KNOWN if unknown else ""), fix=_CALM)


def _unlisted_transition(group: WriteGroup) -> str:
    return f"{group.transition} while other CPUs run, not listed in any issue"


def _conditional(group: WriteGroup) -> Violation | None:
    """Check PL310: live writes of instructions."""
    if not group.live or group.literal or group.same or not group.old_known:
        return None
    listed = cmodx.judge(group.old_word, group.new_word, "new").allowed
    if not listed or cmodx.judge(group.old_word, group.new_word, "old").allowed:
        return None
    return Violation(f"{group.transition} while other CPUs run, listed in newer issues only")


def _without_maintenance(group: WriteGroup) -> Violation | None:
    """Check PL506: maintenance of live writes of instructions, and CPUs that executed the new one too early."""
    if not group.live or group.literal or group.same:
        return None
    if group.steps is not None and (missing := missing_maintenance(group.steps, group.ctr)):
        return Violation(f"{group.transition} with {missing} before the writer returned: {steps_text(group.steps)}")
    if group.unlisted and group.first_run is FirstRun.UNSYNCED:
        return Violation(
            f"{group.transition}, executed by a CPU without a context synchronization event since the write"
        )
    return None


def _by_unknown(group: WriteGroup) -> Violation | None:
    """Check PL507: any write, live or not, with a known writer."""
    if not group.writer.function or group.writer.mechanism is not None:
        return None
    return Violation(f"{group.transition}, written by {group.writer.function}, not called by any known mechanism")


def _before_execution(group: WriteGroup) -> Violation | None:
    """Check PL513: writes that PL308 would report if a CPU had executed the instruction.

    A mechanism that is made to write before the first execution, and did, deserves no warning.
    """
    if not group.unlisted or group.executed is PriorRun.YES:
        return None
    message = _unlisted_transition(group)
    if group.executed is PriorRun.NEVER:
        message += f"; no CPU had executed it, {_AFTERWARDS[group.first_run]}"
        return Violation(message, "info" if group.writer.before_use else None)
    if not group.writer.before_use:
        return None
    reason = "whether a CPU had executed them before is not known: this recorder does not see it"
    return Violation(message + _NOT_KNOWN, open=reason)


CHECKS: Final[Mapping[str, Callable[[WriteGroup], Violation | None]]] = {
    "PL308": _unlisted,
    "PL310": _conditional,
    "PL506": _without_maintenance,
    "PL507": _by_unknown,
    "PL513": _before_execution,
}
"""By code: the rules for input W."""


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
            others = {Maintenance.DC: Maintenance.DC_ELSEWHERE, Maintenance.IC_IVAU: Maintenance.IC_ELSEWHERE}
            return text + (" (for its line)" if others.get(kinds[0]) in steps else "")
        at += steps[at] is not Maintenance.MORE
    return ""


def steps_text(steps: Sequence[Maintenance]) -> str:
    """List steps as in ``DC, DSB, IC IVAU, DSB, ISB``."""
    return ", ".join(_NAMES.get(step, step.name.replace("_", " ")) for step in steps) or "nothing"
