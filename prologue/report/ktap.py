"""Findings as KTAP version 1, the test results of the kernel (Documentation/dev-tools/ktap.rst)."""

from __future__ import annotations

from prologue.report.cases import Case, Inputs, cases_by_file
from prologue.report.printable import printable
from prologue.rules.base import Finding, Rule, Severity


def findings_ktap(  # noqa: PLR0913  # what a report is made of
    files: list[str],
    findings: list[Finding],
    notes: list[str],
    failing: tuple[Severity, ...],
    rules: tuple[Rule, ...],
    *,
    inputs: Inputs | None = None,
) -> str:
    """One test for each file, in it a subtest for each rule; findings are diagnostics before the result.

    With ``inputs``, rules that do not apply to a file are skipped there; without, all rules count as run.

    Raises:
        InternalError: a finding of a file or rule that was not named.

    """
    by_file = cases_by_file(files, findings, failing, rules, inputs)
    lines = ["KTAP version 1", f"1..{len(by_file)}", *(f"# note: {printable(note)}" for note in notes)]
    for number, (path, cases) in enumerate(by_file.items(), 1):
        lines += [f"  {line}" for line in _subtests(cases)]
        skip = " # SKIP no rule applies" if all(case.skipped for case in cases) else ""
        lines.append(f"{_result(any(case.failing for case in cases))} {number} {_description(path)}{skip}")
    return "\n".join(lines)


def _subtests(cases: list[Case]) -> list[str]:
    lines = ["KTAP version 1", f"1..{len(cases)}"]
    for number, case in enumerate(cases, 1):
        lines += [f"# {line}" for line in case.lines()]
        if case.failing:
            lines.append(f"# to do: {case.rule.fix}")
        skip = f" # SKIP {case.skipped}" if case.skipped else ""
        lines.append(f"{_result(bool(case.failing))} {number} {case.name}{skip}")
    return lines


def _result(failed: bool) -> str:
    return "not ok" if failed else "ok"


def _description(path: str) -> str:
    """Name of a test: a hash sign would begin a directive, and readers drop spaces at the ends."""
    text = printable(path).replace("#", r"\x23")
    inner = text.strip(" ")
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    return r"\x20" * before + inner + r"\x20" * (after if inner else 0)
