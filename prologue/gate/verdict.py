"""What ``prologue verify`` found, before a report format is chosen."""

from __future__ import annotations

from dataclasses import dataclass

from prologue.gate.baseline import Known
from prologue.rules.base import Finding, Input, Rule, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Everything that a report is made of."""

    files: list[str]
    findings: list[Finding]  # new ones
    baselined: list[tuple[Finding, Known]]
    notes: list[str]
    failing: tuple[Severity, ...]
    rules: tuple[Rule, ...]  # those that ran
    inputs: dict[str, frozenset[Input]]  # what kind of input each file was
    refused: list[Finding]  # by --release, without a rule
    unreadable: dict[str, str]  # files that could not be verified, and why

    @property
    def failed(self) -> bool:
        """Whether a finding makes ``verify`` fail."""
        return any(finding.severity in self.failing for finding in self.findings + self.refused)
