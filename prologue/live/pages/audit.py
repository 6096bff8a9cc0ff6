"""An audit of running text as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from prologue.gate.identity import verification_date
from prologue.live.audit.outcome import KERNEL, Audit, MemoryFinding
from prologue.live.report.audit import MECHANISM_HEAD, closing, file_notes, mechanism_rows, not_looked_at
from prologue.live.report.undecided import agreement_lines, unknown_lines, why_undecided
from prologue.report.html.causes import causes_part
from prologue.report.html.page import Badge, BulletList, Page, PagePart, Table
from prologue.rules.base import Finding

_MANY = 12  # files from which on their table is folded


def audit_page(audit: Audit, command: Sequence[str], *, lacking_allowed: bool) -> Page:
    """Make the page; ``command`` has the words that make it again."""
    parts: list[PagePart] = [causes_part(_findings(audit))]
    if audit.transitions:
        parts.append(_transitions(audit))
    undecided = [*why_undecided(audit), *unknown_lines(audit, show_all=False)]
    if undecided:
        parts.append(BulletList(title="Not decided", lines=undecided))
    if rows := mechanism_rows(audit):
        parts.append(Table(title="What was checked", head=MECHANISM_HEAD, rows=rows, numbers=(1, 2, 3, 4)))
    lacking = [*map(str, audit.all_errors), *not_looked_at(audit)]
    parts.append(BulletList(title="What was not checked", lines=lacking or ["All text in memory was looked at."]))
    notes = [*agreement_lines(audit), *file_notes(audit)]
    notes += [f"struct offsets: {audit.struct_offsets}"] if audit.struct_offsets else []
    if notes:
        parts.append(BulletList(title="Notes", lines=notes))
    parts.append(_files(audit))
    outcome: Badge = "passed" if audit.passes(lacking_allowed=lacking_allowed) else "not decided"
    if audit.failed or audit.mismatch:
        outcome = "failed"
    return Page(
        title="prologue live audit",
        subject=audit.source,
        facts=_facts(audit),
        date=verification_date(),
        outcome=outcome,
        summary=closing(audit),
        parts=parts,
        command=command,
    )


def _facts(audit: Audit) -> list[tuple[str, str]]:
    sources = [("memory", item.source) for item in audit.looks]
    kernels = [("vmlinux", str(item.path)) for item in audit.files if item.name == KERNEL]
    slide = [("slide", f"{audit.slide:#x}")] if audit.slide is not None else []
    return [*sources, *kernels, ("kernel", audit.release or "release unknown"), *slide]


def _findings(audit: Audit) -> Iterator[Finding]:
    """Yield all findings, the earlier memory's first; literals are data, and all other words are instructions."""
    for look in audit.looks:
        for file in look.files:
            data = {word.vaddr for word in file.audited.words if word.mechanism.endswith("literals")}
            for finding in file.findings:
                is_insn = finding.where.vaddr is not None and finding.where.vaddr not in data
                named = MemoryFinding(look.source, finding).named
                yield replace(named, finds_insns=finding.finds_insns or is_insn)


def _transitions(audit: Audit) -> Table:
    rows = [(row.mechanism, row.old, row.new, f"{row.words:,}", row.verdict) for row in audit.transitions]
    before = "" if audit.before is None else audit.before.source
    head = ("mechanism", "old", "new", "words", "verdict")
    return Table(title=f"Changes since {before}", head=head, rows=rows, numbers=(3,))


def _files(audit: Audit) -> Table:
    rows = [
        (item.name, str(item.path), look.source, f"{item.audited.text:,}",
         f"{sum(row.changed for row in item.audited.mechanisms):,}", f"{len(item.findings):,}")
        for look in audit.looks for item in look.files
    ]  # fmt: skip
    head = ("name", "file", "memory", "words of text", "changed", "findings")
    return Table(title="Files", head=head, rows=rows, numbers=(3, 4, 5), folded=len(rows) > _MANY)
