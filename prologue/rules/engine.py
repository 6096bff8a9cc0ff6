"""Runs rules over a subject."""

from __future__ import annotations

from prologue.errors import RefusedError
from prologue.plan.edits import PatchPlan
from prologue.rules.base import Finding, Rule, Subject
from prologue.rules.deciding import DECIDING
from prologue.sites.binary import Binary
from prologue.sites.kernel import Kernel


def run_rules(subject: Subject, rules: tuple[Rule, ...]) -> tuple[Finding, ...]:
    """All findings, in the order of the rules and of addresses."""
    path = str(subject.binary.path)
    findings: list[Finding] = []
    for rule in rules:
        if subject.inputs.isdisjoint(rule.inputs):
            continue
        # Two entries of one table may name the same place: report it once.
        hits = list(dict.fromkeys(rule.check(subject)))
        places = subject.binary.symbols.locate_all([hit.vaddr for hit in hits]) if hits else []
        for hit, where in zip(hits, places, strict=True):
            findings.append(rule.finding(path, where, hit))
    return tuple(findings)


def judge_symbols(subject: Subject, rules: tuple[Rule, ...]) -> tuple[Subject, tuple[Finding, ...]]:
    """Run the rules; a finding that a stripped symbol may have caused is looked at again with all names restored."""
    findings = run_rules(subject, rules)
    kernel = subject.binary
    if isinstance(kernel, Kernel) and any(finding.severity != "info" for finding in findings):
        again = Kernel.to_be_judged(kernel.image, by_name=True)
        if again.restored != kernel.restored:
            subject = subject._replace(binary=again)
            findings = run_rules(subject, rules)
    return subject, findings


class ApprovedPlan:
    """A plan that the rules passed. Only ``approve`` makes one, and the writer takes nothing else."""

    __slots__ = ("binary", "plan")

    def __init__(self, binary: Binary, plan: PatchPlan, *, _by: object = None) -> None:
        if _by is not _APPROVAL:
            raise TypeError("plans are approved by prologue.rules.engine.approve")
        self.binary = binary
        self.plan = plan


_APPROVAL = object()


def approve(binary: Binary, plan: PatchPlan) -> ApprovedPlan:
    """Let the rules that decide writing judge the file that the plan is for.

    Raises:
        RefusedError: one of them fires, except those that an unfinished file may violate.

    """
    unfinished = binary.state == "unfinished"
    _refuse_findings(binary, tuple(rule for rule in DECIDING if not (unfinished and rule.open_while_unfinished)))
    if binary.state == "mixed":
        raise RefusedError("neither unprocessed nor left by an interrupted run: link it again", path=binary.path)
    return ApprovedPlan(binary, plan, _by=_APPROVAL)


def require_table(binary: Binary) -> None:
    """Let the rules of group PL1 judge a file without a site: a table that was lost is no table that never was.

    Raises:
        RefusedError: one of them fires.

    """
    _refuse_findings(binary, tuple(rule for rule in DECIDING if rule.code.startswith("PL1")))


def _refuse_findings(binary: Binary, rules: tuple[Rule, ...]) -> None:
    bad = run_rules(Subject(binary), rules)
    if bad:
        more = f" (and {len(bad) - 1} more: see `prologue verify`)" if len(bad) > 1 else ""
        first = bad[0]
        raise RefusedError(
            f"{first.code} {first.slug}: {first.message}{more}; {first.fix}", path=binary.path, where=first.where
        )
