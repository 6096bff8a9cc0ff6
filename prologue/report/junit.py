"""Findings as JUnit XML, which CI systems show as tests."""

from __future__ import annotations

from pathlib import PurePath
from xml.etree import ElementTree as ET

from prologue.report.cases import Case, Inputs, cases_by_file
from prologue.report.printable import printable
from prologue.rules.base import Finding, Rule, Severity


def findings_junit(  # noqa: PLR0913  # what a report is made of
    files: list[str],
    findings: list[Finding],
    notes: list[str],
    failing: tuple[Severity, ...],
    rules: tuple[Rule, ...],
    *,
    inputs: Inputs | None = None,
) -> str:
    """XML document: a test suite for each file, in it a test case for each rule; the first suite has the notes.

    With ``inputs``, rules that do not apply to a file are skipped there; without, all rules count as run.

    Raises:
        InternalError: a finding of a file or rule that was not named.

    """
    root = ET.Element("testsuites", name="prologue")
    for path, cases in cases_by_file(files, findings, failing, rules, inputs).items():
        suite = ET.SubElement(root, "testsuite", _counts(cases), name=printable(path))
        classname = printable(f"prologue.{PurePath(path).name}")
        for case in cases:
            _add_case(suite, case, classname)
    suites = list(root)
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.attrib[key]) for suite in suites)))
    if suites and notes:
        ET.SubElement(suites[0], "system-out").text = "\n".join(printable(f"note: {note}") for note in notes)
    ET.indent(root)
    # ElementTree would declare the locale's encoding, but reports are written as UTF-8.
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


def _counts(cases: list[Case]) -> dict[str, str]:
    return {
        "tests": str(len(cases)),
        "failures": str(sum(1 for case in cases if case.failing)),
        "errors": "0",
        "skipped": str(sum(1 for case in cases if case.skipped)),
    }


def _add_case(suite: ET.Element, case: Case, classname: str) -> None:
    element = ET.SubElement(suite, "testcase", classname=classname, name=case.name)
    if case.skipped:
        ET.SubElement(element, "skipped", message=case.skipped)
    elif case.failing:
        first = case.failing[0]
        count = f"{len(case.findings):,} finding{'s' if len(case.findings) != 1 else ''}"
        message = printable(f"{count}; first: {first.where}: {first.message}")
        failure = ET.SubElement(element, "failure", message=message, type=first.severity)
        failure.text = "\n".join([*case.lines(), f"to do: {case.rule.fix}"])
    elif case.findings:
        ET.SubElement(element, "system-out").text = "\n".join(case.lines())
