"""Findings as KTAP version 1, the test results of the kernel (Documentation/dev-tools/ktap.rst)."""

from __future__ import annotations

import prologue
from prologue.report.cases import UNREAD, Case, CheckedFiles
from prologue.report.printable import printable


def findings_ktap(checked: CheckedFiles) -> str:
    """Make a test for each file, with a subtest for each rule; findings are diagnostics before the result.

    An unreadable file has one subtest, which fails: no rule ran.

    Raises:
        InternalError: a finding of a file or rule that was not named.

    """
    errors, by_file = checked.unreadable, checked.cases()
    named = list(dict.fromkeys(checked.files))
    lines = ["KTAP version 1", f"1..{len(named)}", *(f"# note: {printable(note)}" for note in checked.notes)]
    if checked.date:
        lines.append(f"# prologue {prologue.__version__}, {checked.date}")
    lines += [f"# {each.role}: {printable(f'{each.path}: {each}')}" for each in checked.compared]
    for number, path in enumerate(named, 1):
        cases = by_file.get(path, [])
        inner = _unread(errors[path]) if path in errors else _subtests(cases)
        if path in checked.identities:
            inner.append(f"# file: {printable(str(checked.identities[path]))}")
        lines += [f"  {line}" for line in inner]
        failed = path in errors or any(case.failing for case in cases)
        skip = " # SKIP no rule applies" if not failed and all(case.skipped for case in cases) else ""
        lines.append(f"{_result(failed)} {number} {escape_test_name(path)}{skip}")
    return "\n".join(lines)


def _unread(error: str) -> list[str]:
    return ["KTAP version 1", "1..1", f"# error: {printable(error)}", f"{_result(True)} 1 {UNREAD}"]


def _subtests(cases: list[Case]) -> list[str]:
    lines = ["KTAP version 1", f"1..{len(cases)}"]
    for number, case in enumerate(cases, 1):
        lines += [f"# {line}" for line in case.lines()]
        lines += [f"# {line}" for line in case.to_do()]
        skip = f" # SKIP {case.skipped}" if case.skipped else ""
        lines.append(f"{_result(bool(case.failing))} {number} {case.name}{skip}")
    return lines


def _result(failed: bool) -> str:
    return "not ok" if failed else "ok"


def escape_test_name(text: str) -> str:
    """Return the name of a test: a hash sign would begin a directive, and readers drop spaces at the ends."""
    text = printable(text).replace("#", r"\x23")
    inner = text.strip(" ")
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    return r"\x20" * before + inner + r"\x20" * (after if inner else 0)
