"""The verdict of ``prologue verify``, before a report format is chosen."""

from __future__ import annotations

from dataclasses import dataclass

from prologue.gate.baseline import Known
from prologue.gate.identity import FileIdentity
from prologue.gate.refusal import GATE, REQUIRE, Required
from prologue.gate.settings import Settings
from prologue.gate.verify import Facts
from prologue.rules.base import Finding, Input, Rule, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Content of a report."""

    files: list[str]
    findings: list[Finding]  # new ones
    baselined: list[tuple[Finding, Known]]
    notes: list[str]
    exceptions: list[str]  # notes, too: which rules did not run, which findings are known, and by whose choice
    release: bool
    require: Required | None
    failing: tuple[Severity, ...]
    settings: dict[str, Settings]  # of each file
    facts: dict[str, Facts]  # of each file that was verified
    inputs: dict[str, frozenset[Input]]  # what kind of input each of these was
    refused: list[Finding]  # by the gate, without a rule
    unreadable: dict[str, str]  # files that could not be verified, and why
    identities: dict[str, FileIdentity]  # of each file
    compared: tuple[FileIdentity, ...]  # of kernels of modules, and of files that were compared
    date: str  # of the verification, in UTC

    @property
    def failed(self) -> bool:
        """True if a finding makes ``verify`` fail."""
        return any(finding.severity in self.failing for finding in self.findings + self.refused)

    @property
    def passed(self) -> bool:
        """True if every file was verified and nothing fails."""
        return not self.failed and not self.unreadable

    def rules_run(self, path: str) -> int:
        """Count the rules that ran on a file: not left out, and made for such a file."""
        inputs = self.inputs.get(path, frozenset())
        return sum(1 for rule in self.settings[path].rules if not inputs.isdisjoint(rule.inputs))

    @property
    def gate_rules(self) -> tuple[Rule, ...]:
        """Refusals that this run could make: cases of their own in test reports."""
        return (GATE,) * self.release + (REQUIRE,) * (self.require is not None)
