"""A verdict of the gate in the chosen format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from prologue.gate.judge import Verdict
from prologue.rules.registry import RULES

if TYPE_CHECKING:
    from prologue.report.cases import CheckedFiles

Format = Literal["text", "json", "sarif", "junit", "ktap"]


def render(verdict: Verdict, kind: Format, *, show_all: bool) -> str:
    """Return the report; no format ends with a newline."""
    if kind == "text":
        from prologue.report.findings import findings_text

        return findings_text(verdict, show_all=show_all)
    if kind == "json":
        import json

        from prologue.report.findings import findings_data

        return json.dumps(findings_data(verdict), indent=2)
    return _sarif(verdict) if kind == "sarif" else render_cases(_checked(verdict), kind)


def render_cases(checked: CheckedFiles, kind: Literal["junit", "ktap"]) -> str:
    """Return files and their findings as test cases."""
    from prologue.report.cases import findings_junit, findings_ktap

    return findings_junit(checked) if kind == "junit" else findings_ktap(checked)


def _sarif(verdict: Verdict) -> str:
    import json

    from prologue.report.sarif import findings_sarif

    log = findings_sarif(
        verdict.files,
        verdict.findings + verdict.refused,
        [*verdict.notes, *verdict.exceptions],
        verdict.baselined,
        verdict.unreadable,
        left_out={left.rule.code for settings in verdict.settings.values() for left in settings.left_out},
        identities=[*verdict.identities.values(), *verdict.compared],
        date=verdict.date,
    )
    return json.dumps(log, indent=2)


def _checked(verdict: Verdict) -> CheckedFiles:
    from prologue.report.cases import CheckedFiles

    return CheckedFiles(
        files=verdict.files,
        findings=verdict.findings + verdict.refused,
        notes=[*verdict.notes, *verdict.exceptions],
        failing=verdict.failing,
        rules=(*RULES, *verdict.gate_rules),
        inputs=verdict.inputs,
        left_out={
            path: {left.rule.code: left.why for left in settings.left_out}
            for path, settings in verdict.settings.items()
        },
        unreadable=verdict.unreadable,
        identities=verdict.identities,
        compared=verdict.compared,
        date=verdict.date,
    )
