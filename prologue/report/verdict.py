"""What ``prologue verify`` found, in whichever format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from prologue.baseline import Known
from prologue.errors import Location
from prologue.rules.base import Finding, Hit, Input, Rule, Severity, Subject

Format = Literal["text", "json", "sarif", "junit", "ktap"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Everything that a report is made of."""

    files: list[str]
    findings: list[Finding]  # new ones
    baselined: list[tuple[Finding, Known]]
    notes: list[str]
    failing: tuple[Severity, ...]
    rules: tuple[Rule, ...]  # those that were run
    inputs: dict[str, frozenset[Input]]  # what kind of input each file was
    unreleasable: list[str]  # files that --release refuses whatever the rules say
    unreadable: dict[str, str]  # files that could not be verified, and why

    @property
    def failed(self) -> bool:
        """Whether the gate stays shut."""
        return bool(self.unreleasable) or any(finding.severity in self.failing for finding in self.findings)


def render(verdict: Verdict, kind: Format, *, show_all: bool) -> str:
    """Write the report; no format ends in a line end."""
    if kind == "text":
        from prologue.report.findings import findings_text

        return findings_text(verdict.files, verdict.findings, verdict.notes, show_all=show_all)
    if kind in ("json", "sarif"):
        import json

        return json.dumps(_document(verdict, kind), indent=2)
    from prologue.report.junit import findings_junit
    from prologue.report.ktap import findings_ktap

    write = findings_junit if kind == "junit" else findings_ktap
    # CI systems look at cases only, so what fails without a rule needs a case of its own.
    extra = [_stock_finding(path) for path in verdict.unreleasable]
    extra += [_unreadable_finding(path, error) for path, error in verdict.unreadable.items()]
    return write(
        verdict.files,
        verdict.findings + extra,
        verdict.notes,
        verdict.failing,
        (*verdict.rules, *([_GATE] if extra else [])),
        inputs=verdict.inputs,
    )


def _document(verdict: Verdict, kind: Format) -> dict[str, object]:
    if kind == "json":
        from prologue.report.findings import findings_data

        return findings_data(
            verdict.files, verdict.findings, verdict.notes, verdict.baselined, list(verdict.unreadable.values())
        )
    from prologue.report.sarif import findings_sarif

    return findings_sarif(
        verdict.files, verdict.findings, verdict.notes, verdict.baselined, list(verdict.unreadable.values())
    )


def _nothing(_subject: Subject) -> Iterator[Hit]:
    """No rule of the catalogue, only a row of a report: there is nothing to look at."""
    return iter(())


_GATE = Rule(
    code="GATE",
    slug="release-gate",
    severity="fatal",
    inputs=("V", "K"),
    what="A file that the gate refuses whatever the rules say.",
    why="It could not be read, or it was processed for bench and lab use only.",
    example="",
    fix="see the message",
    citation="",
    check=_nothing,
)


def _stock_finding(path: str) -> Finding:
    return _gate_finding(path, "processed for the stock contract: for bench and lab use, not for release")


def _unreadable_finding(path: str, error: str) -> Finding:
    return _gate_finding(path, f"could not be verified: {error}")


def _gate_finding(path: str, message: str) -> Finding:
    return Finding(_GATE.code, _GATE.slug, _GATE.severity, path, Location(None), message, (), (), _GATE.fix)
