"""Findings of an audit: each kind of wrong word has its rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.kernel.binary import Binary
from prologue.live.audit.audited import Audited, LiveKind
from prologue.rules.base import Finding, Hit, Rule
from prologue.rules.registry import find_rule

_CODES: Final[dict[LiveKind, str]] = {
    "first slot": "PL501",
    "call": "PL502",
    "unexplained": "PL503",
    "unstable": "PL504",
    "word": "PL508",
}
MISMATCH: Final = find_rule("PL505")
REPORTED: Final = frozenset((MISMATCH.code, *_CODES.values()))
"""Codes of the rules whose findings only an audit makes."""


def audit_findings(binary: Binary, audited: Audited, rules: tuple[Rule, ...]) -> Iterator[Finding]:
    """Report every wrong word that one of the rules is about, and memory that is another kernel's."""
    path = str(binary.path)
    if audited.mismatch and MISMATCH in rules:
        start = binary.symbols.find("_stext")
        hit = Hit(start.vaddr if start else 0, audited.mismatch)
        yield MISMATCH.finding(path, binary.symbols.locate(hit.vaddr), hit)
    by_code = {rule.code: rule for rule in rules}
    words = [word for word in audited.words if _CODES.get(word.kind) in by_code]
    places = binary.symbols.locate_all([word.vaddr for word in words]) if words else []
    for word, where in zip(words, places, strict=True):
        yield by_code[_CODES[word.kind]].finding(path, where, word)
