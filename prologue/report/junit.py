"""Findings as JUnit XML, which CI systems show as tests."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from xml.etree import ElementTree as ET

import prologue
from prologue.report.cases import UNREAD, Case, CheckedFiles, WhyNot
from prologue.report.closing import severities
from prologue.report.printable import printable
from prologue.words import counted


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
            _add_error(suite, errors[path], classname)
        else:
            ran = [case for case in cases[path] if case.skipped is None]
            suite.attrib |= _counts(ran)
            for case in ran:
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


def _add_error(suite: ET.Element, error: str, classname: str) -> None:
    suite.attrib |= {"tests": "1", "failures": "0", "errors": "1"}
    element = ET.SubElement(suite, "testcase", classname=classname, name=UNREAD)
    ET.SubElement(element, "error", message=printable(error), type="unread")


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
