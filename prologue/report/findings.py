"""Findings as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from prologue.gate.baseline import Known
from prologue.report.printable import printable
from prologue.rules.base import SEVERITIES, Finding

SCHEMA: Final = "prologue.verify/1"
_SHOWN: Final = 5  # findings of one rule in the text; JSON has them all


def findings_data(
    files: list[str],
    findings: list[Finding],
    notes: list[str],
    baselined: Sequence[tuple[Finding, Known]] = (),
    unreadable: Sequence[str] = (),
) -> dict[str, Any]:
    """All findings, as documented in docs/json.md."""
    return {
        "schema": SCHEMA,
        "files": files,
        "errors": list(unreadable),
        "counts": _counts(findings),
        "notes": notes,
        "findings": [_finding(f) for f in findings],
        "baselined": [_finding(f) | {"reason": known.reason, "owner": known.owner} for f, known in baselined],
    }


def _finding(f: Finding) -> dict[str, Any]:
    return {
        "code": f.code,
        "slug": f.slug,
        "severity": f.severity,
        "file": f.path,
        "vaddr": None if f.where.vaddr is None else f"{f.where.vaddr:#x}",
        "symbol": f.where.symbol,
        "symbol_offset": f.where.symbol_offset,
        "section": f.where.section,
        "section_offset": f.where.section_offset,
        "message": f.message,
        "found": [f"{word:#x}" for word in f.found],
        "expected": [f"{word:#x}" for word in f.expected],
        "fix": f.fix,
    }


def _counts(findings: list[Finding]) -> dict[str, int]:
    counted = Counter(f.severity for f in findings)
    return {severity: counted[severity] for severity in SEVERITIES}


def findings_text(
    files: list[str], findings: list[Finding], notes: list[str], *, show_all: bool, unreadable: Sequence[str] = ()
) -> str:
    """Findings grouped by file and rule, the first few of each, what could not be read, notes, and one summary line."""
    lines: list[str] = []
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.path, finding.code), []).append(finding)
    for (path, code), group in groups.items():
        first = group[0]
        lines.append(f"{printable(path)}: {code} {first.slug} ({first.severity}): {len(group):,}")
        shown = group if show_all else group[:_SHOWN]
        lines += [printable(f"  {finding.where}: {finding.message}{_disassembled(finding)}") for finding in shown]
        if len(group) > len(shown):
            lines.append(f"  ... and {len(group) - len(shown):,} more (--all)")
        lines.append(f"  to do: {first.fix}")
    lines += [f"could not be verified: {printable(error)}" for error in unreadable]
    lines += [f"note: {printable(note)}" for note in notes]
    counts = [f"{count} {severity}" for severity, count in _counts(findings).items() if count]
    if unreadable:
        counts.append(f"{len(unreadable)} could not be verified")
    lines.append(f"{len(files)} file{'s' if len(files) != 1 else ''}: {', '.join(counts) or 'clean'}")
    return "\n".join(lines)


def _disassembled(finding: Finding) -> str:
    """The found instructions in assembly; nothing for addresses and bytes."""
    if not finding.found or not finding.finds_insns:
        return ""
    from prologue.insn.disasm import insn_text

    start = finding.where.section_offset if finding.where.vaddr is None else finding.where.vaddr
    texts = (insn_text(word, start + 4 * k) for k, word in enumerate(finding.found))
    return f" [{'; '.join(texts)}]"
