"""Findings as text: info is counted in one line, unless something worse follows from it."""

from __future__ import annotations

from dataclasses import replace

from prologue.report.findings import finding_lines
from tests.support.made_findings import FATAL, INFO, finding


def test_info_is_counted_unless_all_is_shown() -> None:
    findings = [finding(FATAL, message="too early"), finding(INFO, message="the same build-id")]
    lines = finding_lines(findings, show_all=False)
    assert lines[0].startswith(f"vmlinux: {FATAL.code} ")
    assert lines[-1] == f"info, which fails nothing: {INFO.code} {INFO.slug} 1 (--all shows them)"
    assert "the same build-id" not in "\n".join(lines)
    assert "the same build-id" in "\n".join(finding_lines(findings, show_all=True))


def test_a_root_is_shown_if_something_worse_follows_from_it() -> None:
    follower = replace(finding(FATAL, message="too early"), follows_from=(INFO.code,))
    lines = finding_lines([finding(INFO, message="the same build-id"), follower], show_all=False)
    assert lines[0].startswith(f"vmlinux: {INFO.code} ")
    assert f"  also: {FATAL.code} {FATAL.slug} follows from it" in lines
