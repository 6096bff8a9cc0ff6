"""Findings as text: info is counted in one line, unless something worse follows from it."""

from __future__ import annotations

from dataclasses import replace

from prologue.report.findings import finding_lines
from prologue.report.html.causes import causes_part
from prologue.report.junit import CheckedFiles, findings_junit
from tests.support.made_findings import ERROR, FATAL, INFO, finding


def test_info_is_counted_unless_all_is_shown() -> None:
    findings = [finding(FATAL, message="too early"), finding(INFO, message="the same build-id")]
    lines = finding_lines(findings, show_all=False)
    assert lines[0].startswith(f"vmlinux: {FATAL.code} ")
    assert lines[-1] == f"info, which fails nothing: {INFO.code} {INFO.slug} 1 (--all shows them)"
    assert "the same build-id" not in "\n".join(lines)
    assert "the same build-id" in "\n".join(finding_lines(findings, show_all=True))


def test_a_rule_is_as_severe_as_its_worst_finding() -> None:
    """PL301 on a function of which nobody knows whether it may be traced is a warning, on others an error."""
    mixed = [replace(finding(ERROR, message="not known"), severity="warn"), finding(ERROR)]
    assert finding_lines(mixed, show_all=False)[0] == f"vmlinux: {ERROR.code} {ERROR.slug} (error, warn): 2"
    (cause,) = causes_part(mixed).causes
    assert (cause.severity, cause.count) == ("error", "2 findings in 1 file: 1 error, 1 warn")
    failing = findings_junit(
        CheckedFiles(files=["vmlinux"], findings=mixed, notes=[], failing=("fatal", "error", "warn"), rules=(ERROR,))
    )
    assert 'type="error"' in failing
    assert 'type="warn"' not in failing


def test_a_root_is_shown_if_something_worse_follows_from_it() -> None:
    follower = replace(finding(FATAL, message="too early"), follows_from=(INFO.code,))
    lines = finding_lines([finding(INFO, message="the same build-id"), follower], show_all=False)
    assert lines[0].startswith(f"vmlinux: {INFO.code} ")
    assert f"  also: {FATAL.code} {FATAL.slug} follows from it" in lines
