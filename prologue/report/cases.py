"""Findings as test cases, one for each file and rule: the common part of JUnit and KTAP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from prologue.errors import InternalError
from prologue.gate.identity import FileIdentity
from prologue.report.printable import printable
from prologue.rules.base import INPUTS, Finding, Input, Rule, Severity

Inputs = Mapping[str, frozenset[Input]]  # Subject.inputs of each file
WhyNot = Mapping[str, Mapping[str, str]]  # of each file: codes of rules that did not run, and why
UNREAD: Final = "verified"  # name of the one case of a file that no rule could look at
_SHOWN: Final = 100  # findings of one case; CI systems truncate or drop long ones


@dataclass(frozen=True, slots=True)
class Case:
    """A rule on a file."""

    rule: Rule
    findings: tuple[Finding, ...]
    failing: tuple[Finding, ...]  # those whose severity makes the case fail
    skipped: str | None  # why the rule did not run on this file

    @property
    def name(self) -> str:
        """Name by which CI keeps a history: nothing in it changes from run to run."""
        return f"{self.rule.code} {self.rule.slug}"

    def lines(self) -> list[str]:
        """Return the findings, one per line, and how many are left out."""
        lines = [printable(f"{f.where}: {f.severity}: {f.message}{_after(f)}") for f in self.findings[:_SHOWN]]
        if len(self.findings) > _SHOWN:
            lines.append(f"... and {len(self.findings) - _SHOWN:,} more")
        return lines

    def to_do(self) -> list[str]:
        """Return the fixes of findings that fail, each once; findings that follow from others have none."""
        fixes = dict.fromkeys(_fix(finding) for finding in self.failing)
        return [printable(f"to do: {fix}") for fix in fixes]


def _after(finding: Finding) -> str:
    return f" (follows from {', '.join(finding.follows_from)})" if finding.follows_from else ""


def _fix(finding: Finding) -> str:
    return f"see {', '.join(finding.follows_from)}" if finding.follows_from else finding.fix


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFiles:
    """Files, what was found in them, and the rules that looked: a report of test cases.

    Rules that were ``left_out`` are skipped, and so are, with ``inputs``, those that do not apply to a file. No rule
    looked at the ``unreadable`` ones, which have an error instead.
    """

    files: Sequence[str]
    findings: Sequence[Finding]
    notes: Sequence[str]
    failing: tuple[Severity, ...]
    rules: tuple[Rule, ...]
    inputs: Inputs | None = None
    left_out: WhyNot = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    identities: Mapping[str, FileIdentity] = field(default_factory=dict)  # of files that were read as such
    compared: Sequence[FileIdentity] = ()  # of what they were compared with
    date: str = ""  # in UTC; empty if the report has none

    def cases(self) -> dict[str, list[Case]]:
        """Make the cases of each file that was read; a file that is named twice counts once.

        Raises:
            InternalError: a finding of a file or rule that was not named, which would be lost.

        """
        groups: dict[tuple[str, str], list[Finding]] = {}
        for finding in self.findings:
            groups.setdefault((finding.path, finding.code), []).append(finding)
        readable = dict.fromkeys(path for path in self.files if path not in self.unreadable)
        cases = {path: list(self._cases(path, groups)) for path in readable}
        for path, code in groups:
            raise InternalError(f"a finding of {code}, which did not run", path=path)
        return cases

    def _cases(self, path: str, groups: dict[tuple[str, str], list[Finding]]) -> Iterator[Case]:
        """Yield the cases of a file, and remove their findings from the groups."""
        for rule in self.rules:
            findings = tuple(groups.pop((path, rule.code), ()))
            why = self.left_out.get(path, {}).get(rule.code)
            if why is None and self.inputs is not None and self.inputs[path].isdisjoint(rule.inputs):
                why = "needs " + " or ".join(INPUTS[kind] for kind in rule.inputs)
            yield Case(
                rule,
                findings,
                tuple(f for f in findings if f.severity in self.failing),
                None if findings or why is None else printable(why),
            )
