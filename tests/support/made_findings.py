"""Findings made by hand, for tests of the reports."""

from __future__ import annotations

from hypothesis import strategies as st

from prologue.errors import Location
from prologue.rules.base import Finding, Rule
from prologue.rules.registry import find_rule

FATAL, ERROR, WARN = find_rule("PL203"), find_rule("PL105"), find_rule("PL109")
INFO = find_rule("PL406")
RULES = (FATAL, ERROR, WARN, INFO)

# Names as no linker would take them: control characters, markup, directives, halves of surrogate pairs.
NASTY = st.text(st.one_of(st.characters(), st.sampled_from("\0\x1b\n\r\t]]><&\"'#{}[]*?\\\ud800\udcff\ufffe\u202e")))


def finding(  # one place for all that a finding has
    rule: Rule = FATAL,
    path: str = "vmlinux",
    symbol: str | None = "schedule",
    offset: int = 4,
    *,
    section: str | None = ".text",
    message: str = "MOV X9, X30 before the BTI landing pad",
    vaddr: int | None = 0xFFFF800008010004,
) -> Finding:
    where = Location(vaddr=vaddr, section=section, section_offset=0x10004, symbol=symbol, symbol_offset=offset)
    words = (0xAA1E03E9, 0xD503245F)
    return Finding(
        code=rule.code,
        slug=rule.slug,
        severity=rule.severity,
        path=path,
        where=where,
        message=message,
        found=words,
        expected=words[::-1],
        fix=rule.fix,
    )
