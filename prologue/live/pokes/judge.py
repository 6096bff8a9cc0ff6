"""The judge of recorded writes: every rule that is about them, over every group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from prologue.errors import InputError, Location
from prologue.insn.disasm import insn_text
from prologue.live.pokes.recording import NO_CPU, WITHIN, Recording
from prologue.live.pokes.violations import CHECKS, Violation
from prologue.live.pokes.write_groups import WriteGroup, chain_of, group_writes
from prologue.live.pokes.writers import NameTable
from prologue.live.rules import PL507
from prologue.releases import not_known
from prologue.rules.base import FAILING, SEVERITIES, Finding, Hit, Rule
from prologue.rules.registry import RULES

NOT_DECIDED: Final = "not decided"
"""The verdict on a writer without a mechanism in a release whose writers are not known, and on facts not seen."""
WRITE_RULES: Final = tuple(rule for rule in RULES if "W" in rule.inputs)


class OpenQuestion(NamedTuple):
    """Writes of one writer that were not decided."""

    writer: str
    words: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedWrites:
    """A recording, its writes in groups, and the verdict on each group: codes of violated rules, empty if allowed.

    ``undecided`` are findings for which the deciding facts are not known; ``questions`` says which.
    """

    recording: Recording
    groups: tuple[WriteGroup, ...]
    verdicts: tuple[tuple[str, ...], ...]
    findings: tuple[Finding, ...]
    undecided: tuple[Finding, ...] = ()
    questions: tuple[OpenQuestion, ...] = ()

    @property
    def failing(self) -> bool:
        """True if a finding is an error or worse."""
        return any(finding.severity in FAILING for finding in self.findings)


def judge_writes(recording: Recording) -> JudgedWrites:
    """Judge every write of a recording.

    Raises:
        InputError: it is not of an arm64 machine.

    """
    if recording.header.machine != "aarch64":
        raise InputError(
            f"was recorded on {recording.header.machine}, not arm64: these rules say nothing of it", path=recording.path
        )
    groups, names = group_writes(recording), NameTable(recording.trailer.functions)
    unknown = not_known(recording.header.release) if recording.header.release else ""
    verdicts, findings, undecided, questions = [], list[Finding](), list[Finding](), list[OpenQuestion]()
    for group in groups:
        against = [(rule, hit) for rule in WRITE_RULES if (hit := CHECKS[rule.code](group))]
        # Writers are known by name, release by release; the architecture says which writes are allowed.
        opened = {rule.code: unknown if rule is PL507 else hit.open for rule, hit in against}
        verdicts.append(tuple(NOT_DECIDED if opened[rule.code] else rule.code for rule, _ in against))
        for rule, hit in against:
            into = undecided if opened[rule.code] else findings
            into += [_finding(recording, names, rule, hit, k) for k in group.rows.tolist()]
        questions += [OpenQuestion(group.writer.function, len(group.rows), text) for text in opened.values() if text]
    findings.sort(key=lambda finding: (finding.code, SEVERITIES.index(finding.severity)))
    return JudgedWrites(
        recording=recording,
        groups=groups,
        verdicts=tuple(verdicts),
        findings=tuple(findings),
        undecided=tuple(undecided),
        questions=tuple(questions),
    )


def _finding(recording: Recording, names: NameTable, rule: Rule, hit: Violation, index: int) -> Finding:
    row = recording.rows[index]
    time, vaddr, old, new = (int(row[name]) for name in ("time", "address", "old", "new"))
    place = names.place(vaddr, time)
    symbol = "" if place is None else f"{place.name} [{place.owner}]" if place.owner else place.name
    chain = " < ".join(names.text(caller, time) for caller in chain_of(row)) or "not known"
    where = Location(vaddr, symbol=symbol or None, symbol_offset=place.offset if place else 0)
    cpu = "CPU not known" if row["cpu"] == NO_CPU else f"CPU {row['cpu']}"
    end = time + WITHIN * int(row["within"])
    when = f"{time:,} to {end:,}" if end > time else f"{time:,}"
    message = (
        f"{hit.message}; {cpu}, {recording.header.clock} {when}: {insn_text(old, vaddr)} -> "
        f"{insn_text(new, vaddr)}; by {chain}"
    )
    return rule.finding(recording.path, where, Hit(vaddr, message, (new,), (old,), severity=hit.severity, fix=hit.fix))
