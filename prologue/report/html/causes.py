"""Findings by root cause, for a page: one card for each rule, whatever the number of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from prologue.gate.refusal import GATE_RULES
from prologue.report.closing import counted_severities, severities
from prologue.report.findings import by_root
from prologue.report.html.page import Cause, Causes, FindingPlace
from prologue.report.rule_page import insn_lines
from prologue.rules.base import Finding, Rule
from prologue.rules.registry import RULES
from prologue.words import counted

_ROOM: Final = 3000  # places of all causes together: some 2 MB
_LEAST: Final = 20  # places of each cause, also of the last of many
_WORDS: Final = 16  # words of one finding that are disassembled
_FIXES: Final = 5  # of one cause
_RULES: Final = {rule.code: rule for rule in (*RULES, *GATE_RULES)}


def causes_part(findings: Iterable[Finding]) -> Causes:
    """Make a card for each rule whose findings are root causes, the most severe as they come."""
    roots, following = by_root(findings)
    by_code: dict[str, list[Finding]] = {}
    after: dict[str, list[Finding]] = {}
    for (path, code), group in roots.items():
        by_code.setdefault(code, []).extend(group)
        after.setdefault(code, []).extend(following.get((path, code), ()))
    room = max(_ROOM // max(len(by_code), 1), _LEAST)
    causes = [_cause(group, after[code], room) for code, group in by_code.items()]
    return Causes(title="Findings by root cause", causes=causes)


def _cause(group: list[Finding], after: list[Finding], room: int) -> Cause:
    first = group[0]
    rule = _RULES[first.code]
    files = counted(len({finding.path for finding in group}), "file")
    kinds = counted_severities(group)
    each = f": {', '.join(kinds)}" if len(kinds) > 1 else ""
    fixes = list(dict.fromkeys(finding.fix for finding in group))
    following = Counter(f"{finding.code} {finding.slug}" for finding in after)
    return Cause(
        title=f"{first.code} {first.slug}",
        severity=severities(group)[0],
        count=f"{counted(len(group), 'finding')} in {files}{each}",
        places=[_place(finding) for finding in group[:room]],
        left_out=max(len(group) - room, 0),
        also=[f"{counted(count, 'finding')} of {name} follow{'s' * (count == 1)}" for name, count in following.items()],
        fixes=fixes[:_FIXES],
        page=rule_sections(rule),
        listing=insn_lines(rule.words),
    )


def rule_sections(rule: Rule) -> list[tuple[str, str]]:
    """Return headings and texts of a rule's page, except the fix, which its findings have."""
    return [
        ("What it finds", rule.what),
        ("Why it is unsafe", rule.why),
        ("Example", rule.example),
        ("Source", rule.citation),
    ]


def _place(finding: Finding) -> FindingPlace:
    where = finding.where
    start = where.section_offset if where.vaddr is None else where.vaddr
    return FindingPlace(
        file=finding.path if len(finding.path) < 80 else f".../{PurePath(finding.path).name}",
        where=str(where),
        message=finding.message,
        found=_shown(finding, finding.found, start or 0),
        expected=_shown(finding, finding.expected, start or 0),
    )


def _shown(finding: Finding, words: tuple[int, ...], start: int) -> list[str]:
    """Return instructions with their disassembly; addresses and bytes as they are."""
    is_code = finding.finds_insns or _RULES[finding.code].words
    if not is_code or any(word >> 32 for word in words):
        lines = [f"{word:#x}" for word in words[:_WORDS]]
    else:
        lines = insn_lines(words[:_WORDS], start)
    return lines if len(words) <= _WORDS else [*lines, f"... and {len(words) - _WORDS:,} more"]
