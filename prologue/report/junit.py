"""Findings as JUnit XML, which CI systems show as tests: a case for each file and rule."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final
from xml.etree import ElementTree as ET

import prologue
from prologue.errors import InternalError
from prologue.gate.identity import FileIdentity
from prologue.report.closing import severities
from prologue.rules.base import Finding, Input, Rule, Severity
from prologue.words import counted, printable

Inputs = Mapping[str, frozenset[Input]]  # Subject.inputs of each file
WhyNot = Mapping[str, Mapping[str, str]]  # of each file: codes of rules that did not run, and why
_UNREAD: Final = "verified"  # name of the one case of a file that no rule could look at
_SHOWN: Final = 100  # findings of one case; CI systems truncate or drop long ones


@dataclass(frozen=True, slots=True)
class Case:
    """A rule that ran on a file."""

    rule: Rule
    findings: tuple[Finding, ...]
    failing: tuple[Finding, ...]  # those whose severity makes the case fail

    @property
    def name(self) -> str:
        """Name by which CI keeps a history: nothing in it changes from run to run."""
        return f"{self.rule.code} {self.rule.slug}"

    def lines(self) -> list[str]:
        """Return the findings, one per line, and how many are left out."""
        lines = []
        for f in self.findings[:_SHOWN]:
            after = f" (follows from {', '.join(f.follows_from)})" if f.follows_from else ""
            lines.append(printable(f"{f.where}: {f.severity}: {f.message}{after}"))
        if len(self.findings) > _SHOWN:
            lines.append(f"... and {len(self.findings) - _SHOWN:,} more")
        return lines

    def to_do(self) -> list[str]:
        """Return the fixes of findings that fail, each once; findings that follow from others have none."""
        fixes = dict.fromkeys(f"see {', '.join(f.follows_from)}" if f.follows_from else f.fix for f in self.failing)
        return [printable(f"to do: {fix}") for fix in fixes]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFiles:
    """Files, what was found in them, and the rules that looked: a report of test cases.

    Rules that were ``left_out`` have no case, nor, with ``inputs``, those that do not apply to a file. No rule looked
    at the ``unreadable`` ones, which have an error instead.
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
            ran = rule.code not in self.left_out.get(path, {})
            ran = ran and (self.inputs is None or not self.inputs[path].isdisjoint(rule.inputs))
            if findings or ran:
                yield Case(rule, findings, tuple(f for f in findings if f.severity in self.failing))


def findings_junit(checked: CheckedFiles) -> str:
    """Make the XML document: a test suite for each file, with a case for each rule; the first suite has the notes.

    Only rules that ran have a case: CI servers refuse large files (GitLab: 30 MB), and a release has thousands of
    modules. For the same reason class names leave out the directory that all files are in. Rules that were left out
    are among the notes, with the reason; rules that do not apply to a file are not named. The suite of an unreadable
    file is one case with an error: no rule ran.

    Raises:
        InternalError: a finding of a file or rule that was not named.

    """
    root = ET.Element("testsuites", name="prologue")
    errors, cases = checked.unreadable, checked.cases()
    shared = _shared_directory(checked.files)
    for path in dict.fromkeys(checked.files):
        suite = ET.SubElement(root, "testsuite", name=printable(path))
        _add_properties(suite, checked, path, is_first=len(root) == 1)
        # Of two files named vmlinux, each has a history of its own.
        classname = printable(f"prologue.{path.removeprefix(shared)}")
        if path in errors:
            suite.attrib |= {"tests": "1", "failures": "0", "errors": "1"}
            element = ET.SubElement(suite, "testcase", classname=classname, name=_UNREAD)
            ET.SubElement(element, "error", message=printable(errors[path]), type="unread")
        else:
            suite.attrib |= _counts(cases[path])
            for case in cases[path]:
                _add_case(suite, case, classname)
    suites = list(root)
    for key in ("tests", "failures", "errors"):
        root.set(key, str(sum(int(suite.attrib[key]) for suite in suites)))
    lines = [*(f"note: {note}" for note in checked.notes), *_not_run(checked.left_out, len(suites))]
    if suites and lines:
        ET.SubElement(suites[0], "system-out").text = "\n".join(map(printable, lines))
    ET.indent(root)
    # A file is written as UTF-8, and standard output in the locale's encoding: ASCII is right in both.
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root).decode("ascii")


def _add_properties(suite: ET.Element, checked: CheckedFiles, path: str, *, is_first: bool) -> None:
    """Add what identifies a file; to the first suite, too, the tool, and what identifies the files compared with."""
    if checked.date:
        suite.set("timestamp", checked.date.removesuffix("Z"))  # JUnit's schema has no time zone
    properties = dict(checked.identities[path].named()) if path in checked.identities else {}
    if is_first and checked.date:
        properties["prologue"] = prologue.__version__
        for each in checked.compared:
            properties |= {f"{each.role} {each.path} {name}": value for name, value in each.named().items()}
    if properties:
        parent = ET.SubElement(suite, "properties")
        for name, value in properties.items():
            ET.SubElement(parent, "property", name=printable(name), value=printable(value))


def _shared_directory(files: Iterable[str]) -> str:
    """Return the directory that all files are in, with a slash at its end; nothing for one file, or without one."""
    paths = {PurePath(path) for path in files}
    if len(paths) < 2 or len({path.is_absolute() for path in paths}) > 1:
        return ""
    shared = os.path.commonpath([path.parent for path in paths])
    return f"{shared.rstrip('/')}/" if shared else ""


def _not_run(left_out: WhyNot, files: int) -> list[str]:
    """Return a line for each rule that was left out, with the number of files if not of all."""
    reasons = Counter((code, why) for of_file in left_out.values() for code, why in of_file.items())
    return [
        f"not run: {code}: {why}" + (f" ({counted(count, 'file')})" if count < files else "")
        for (code, why), count in reasons.items()
    ]


def _counts(cases: list[Case]) -> dict[str, str]:
    return {
        "tests": str(len(cases)),
        "failures": str(sum(1 for case in cases if case.failing)),
        "errors": "0",
    }


def _add_case(suite: ET.Element, case: Case, classname: str) -> None:
    element = ET.SubElement(suite, "testcase", classname=classname, name=case.name)
    if case.failing:
        first = case.failing[0]
        count = f"{len(case.findings):,} finding{'s' if len(case.findings) != 1 else ''}"
        message = printable(f"{count}; first: {first.where}: {first.message}")
        failure = ET.SubElement(element, "failure", message=message, type=severities(case.failing)[0])
        failure.text = "\n".join([*case.lines(), *case.to_do()])
    elif case.findings:
        ET.SubElement(element, "system-out").text = "\n".join(case.lines())
