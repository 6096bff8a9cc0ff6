"""Writes a verdict of the gate in the chosen format."""

from __future__ import annotations

from typing import Literal

from prologue.gate.refusal import GATE
from prologue.gate.verdict import Verdict
from prologue.rules.base import Finding

Format = Literal["text", "json", "sarif", "junit", "ktap"]


def render(verdict: Verdict, kind: Format, *, show_all: bool) -> str:
    """Return the report; no format ends with a newline."""
    findings = verdict.findings + verdict.refused
    if kind == "text":
        from prologue.report.findings import findings_text

        unreadable = list(verdict.unreadable.values())
        return findings_text(verdict.files, findings, verdict.notes, show_all=show_all, unreadable=unreadable)
    if kind in ("json", "sarif"):
        import json

        return json.dumps(_document(verdict, findings, kind), indent=2)
    from prologue.report.junit import findings_junit
    from prologue.report.ktap import findings_ktap

    write = findings_junit if kind == "junit" else findings_ktap
    return write(
        verdict.files,
        findings,
        verdict.notes,
        verdict.failing,
        # CI systems look at cases only, so a failure without a rule needs a case of its own.
        (*verdict.rules, *([GATE] if verdict.refused else [])),
        inputs=verdict.inputs,
        unreadable=verdict.unreadable,
    )


def _document(verdict: Verdict, findings: list[Finding], kind: Format) -> dict[str, object]:
    if kind == "json":
        from prologue.report.findings import findings_data

        unreadable = list(verdict.unreadable.values())
        return findings_data(verdict.files, findings, verdict.notes, verdict.baselined, unreadable)
    from prologue.report.sarif import findings_sarif

    return findings_sarif(verdict.files, findings, verdict.notes, verdict.baselined, verdict.unreadable)
