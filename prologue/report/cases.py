"""Findings as test cases, one for each file and rule: the common part of JUnit and KTAP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prologue.errors import InternalError
from prologue.report.printable import printable
from prologue.rules.base import INPUTS, Finding, Input, Rule, Severity

Inputs = Mapping[str, frozenset[Input]]  # Subject.inputs of each file
_SHOWN: Final = 100  # findings of one case; CI systems truncate or drop long ones


@dataclass(frozen=True, slots=True)
class Case:
    """One rule on one file."""

    rule: Rule
    findings: tuple[Finding, ...]
    failing: tuple[Finding, ...]  # those whose severity makes the case fail
    skipped: str | None  # why the rule does not apply to this file

    @property
    def name(self) -> str:
        """CI keeps a history by this name, so nothing in it changes from run to run."""
        return f"{self.rule.code} {self.rule.slug}"

    def lines(self) -> list[str]:
        """Return the findings, one per line, and how many are left out."""
        lines = [printable(f"{f.where}: {f.severity}: {f.message}") for f in self.findings[:_SHOWN]]
        if len(self.findings) > _SHOWN:
            lines.append(f"... and {len(self.findings) - _SHOWN:,} more")
        return lines


def cases_by_file(
    files: list[str],
    findings: list[Finding],
    failing: tuple[Severity, ...],
    rules: tuple[Rule, ...],
    inputs: Inputs | None,
) -> dict[str, list[Case]]:
    """All cases; a file that is named twice counts once.

    Raises:
        InternalError: a finding that belongs to no case and would be lost.

    """
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.path, finding.code), []).append(finding)
    cases = {path: list(_cases(path, groups, failing, rules, inputs)) for path in dict.fromkeys(files)}
    for path, code in groups:
        raise InternalError(f"a finding of {code}, which did not run", path=path)
    return cases


def _cases(
    path: str,
    groups: dict[tuple[str, str], list[Finding]],
    failing: tuple[Severity, ...],
    rules: tuple[Rule, ...],
    inputs: Inputs | None,
) -> Iterator[Case]:
    """Cases of one file; removes their findings from the groups."""
    for rule in rules:
        found = tuple(groups.pop((path, rule.code), ()))
        applies = inputs is None or not inputs[path].isdisjoint(rule.inputs)
        needs = None if applies or found else "needs " + " or ".join(INPUTS[kind] for kind in rule.inputs)
        yield Case(rule, found, tuple(f for f in found if f.severity in failing), needs)
