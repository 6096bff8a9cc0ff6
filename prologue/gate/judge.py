"""Turns findings, known findings and unreadable files into one verdict: what fails, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from prologue.gate.baseline import Split, baseline_notes, in_scope, load_baseline, split
from prologue.gate.refusal import stock_finding
from prologue.gate.verdict import Verdict
from prologue.rules.base import INPUTS, Finding, Input, Rule, Severity
from prologue.verify import Verified

_ANYTHING: Final[frozenset[Input]] = frozenset(INPUTS)  # what a file that could not be read may have been
_FAILING: Final[tuple[Severity, ...]] = ("fatal", "error")
_FAILING_RELEASE: Final[tuple[Severity, ...]] = (*_FAILING, "warn")


def judge(results: Sequence[Verified], rules: tuple[Rule, ...], *, release: bool, baseline: Path | None) -> Verdict:
    """Set known findings aside and decide what fails; ``rules`` are those that ran.

    Raises:
        InputError: the baseline cannot be read, or is not filled in.

    """
    verified = [result for result in results if not result.error]
    findings = [finding for result in verified for finding in result.findings]
    files = [str(result.path) for result in results]
    notes = [note for result in verified for note in result.notes]
    parts = Split(findings, [], [], [])
    if baseline is not None:
        parts = _split(findings, files, rules, release=release, baseline=baseline)
        notes += baseline_notes(parts, baseline)
    return Verdict(
        files=files,
        findings=parts.new,
        baselined=parts.baselined,
        notes=notes,
        failing=_FAILING_RELEASE if release else _FAILING,
        rules=rules,
        inputs={str(result.path): result.inputs or _ANYTHING for result in results},
        refused=[stock_finding(str(result.path)) for result in verified if release and result.stock],
        unreadable={str(result.path): result.error for result in results if result.error},
    )


def _split(
    findings: list[Finding], files: list[str], rules: tuple[Rule, ...], *, release: bool, baseline: Path
) -> Split:
    """Separate known findings from new ones; for a release, known findings that are fatal count as new."""
    parts = split(findings, in_scope(load_baseline(baseline), files, rules))
    if not release:
        return parts
    fatal = [finding for finding, _ in parts.baselined if finding.severity == "fatal"]
    kept = [pair for pair in parts.baselined if pair[0].severity != "fatal"]
    return replace(parts, new=parts.new + fatal, baselined=kept)
