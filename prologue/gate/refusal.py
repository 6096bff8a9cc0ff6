"""Refusals of the gate that no rule makes: they appear in reports like a rule, but are not in the registry."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.errors import Location
from prologue.rules.base import Finding, Hit, Rule, Subject


def _nothing(_subject: Subject) -> Iterator[Hit]:
    """Find nothing: the gate itself makes these findings."""
    return iter(())


GATE = Rule(
    code="GATE",
    slug="release-gate",
    severity="fatal",
    inputs=("V", "K"),
    what="A file that the gate refuses without a rule.",
    why="It was processed for bench and lab use only.",
    example="",
    fix="see the message",
    citation="",
    check=_nothing,
)


def stock_finding(path: str) -> Finding:
    """The finding for a stock kernel in a release."""
    return _finding(
        path,
        "processed for the stock contract: for bench and lab use, not for release",
        "release a kernel with the native contract: see docs/kernel-integration.md",
    )


def _finding(path: str, message: str, fix: str) -> Finding:
    return Finding(
        code=GATE.code,
        slug=GATE.slug,
        severity=GATE.severity,
        path=path,
        where=Location(vaddr=None),
        message=message,
        found=(),
        expected=(),
        fix=fix,
    )
