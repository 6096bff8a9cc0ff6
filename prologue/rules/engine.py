"""Runs rules over a subject."""

from __future__ import annotations

from prologue.errors import RefusedError
from prologue.plan.edits import PatchPlan
from prologue.rules.base import Finding, Rule, Subject
from prologue.rules.registry import RULES
from prologue.sites.binary import Binary

# What an interrupted run leaves behind is finished, not refused.
_UNFINISHED = frozenset({"PL110", "PL202", "PL402"})


def run_rules(subject: Subject, rules: tuple[Rule, ...] = RULES) -> tuple[Finding, ...]:
    """All findings, in the order of the rules and of addresses."""
    findings: list[Finding] = []
    for rule in rules:
        if subject.inputs.isdisjoint(rule.inputs):
            continue
        # A place may be named twice, by two entries of one table: once is enough to say so.
        for hit in dict.fromkeys(rule.check(subject)):
            findings.append(
                Finding(
                    rule.code,
                    rule.slug,
                    rule.severity,
                    str(subject.binary.path),
                    subject.binary.symbols.locate(hit.vaddr),
                    hit.message,
                    hit.found,
                    hit.expected,
                    rule.fix,
                )
            )
    return tuple(findings)


class ApprovedPlan:
    """A plan that the rules passed; ``approve`` is the only way to one, and the writer takes nothing else."""

    __slots__ = ("binary", "plan")

    def __init__(self, binary: Binary, plan: PatchPlan, *, _by: object = None) -> None:
        if _by is not _APPROVAL:
            raise TypeError("plans are approved by prologue.rules.engine.approve")
        self.binary = binary
        self.plan = plan


_APPROVAL = object()


def _decides_writing(rule: Rule) -> bool:
    """Whether the rule is about what is written: PL3 judges the rest of the text, and that is verify's (decision 4)."""
    return rule.severity in ("fatal", "error") and not rule.code.startswith("PL3")


def approve(binary: Binary, plan: PatchPlan) -> ApprovedPlan:
    """Let the rules about records, sites and marker judge the file that the plan is for.

    Raises:
        RefusedError: a fatal or error finding, except those that mean "begun, not finished".

    """
    passed = _UNFINISHED if binary.state == "unfinished" else frozenset[str]()
    deciding = tuple(rule for rule in RULES if _decides_writing(rule) and rule.code not in passed)
    bad = run_rules(Subject(binary), deciding)
    if bad:
        more = f" (and {len(bad) - 1} more: see `prologue verify`)" if len(bad) > 1 else ""
        first = bad[0]
        raise RefusedError(
            f"{first.code} {first.slug}: {first.message}{more}; {first.fix}", path=binary.path, where=first.where
        )
    if binary.state == "mixed":
        raise RefusedError("neither untouched nor the work of an interrupted run: link it again", path=binary.path)
    return ApprovedPlan(binary, plan, _by=_APPROVAL)
