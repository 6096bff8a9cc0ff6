"""Audits of several machines that run one kernel as one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from prologue.errors import PrologueError
from prologue.gate.identity import verification_date
from prologue.live.audit.outcome import all_errors
from prologue.live.audit.run import KERNEL, Audit
from prologue.live.pages.audit import findings_of, outcome_of
from prologue.live.report.audit import closing, not_looked_at
from prologue.live.report.undecided import unknown_lines, why_undecided
from prologue.report.html.causes import causes_part
from prologue.report.html.page import Badge, BulletList, Page, PagePart, Table
from prologue.words import counted


def boards_page(
    audits: Sequence[Audit], unread: Sequence[PrologueError], command: Sequence[str], *, lacking_allowed: bool
) -> Page:
    """Make the page; ``unread`` are errors of machines that could not be audited.

    It has no map of the text: ten would be more than a browser opens at once, and each machine's own page has one.
    """
    outcomes = [outcome_of(audit, lacking_allowed=lacking_allowed) for audit in audits]
    rows: list[tuple[str, str, str]] = [
        (audit.source, outcome, closing(audit).removeprefix(f"{audit.source}: "))
        for audit, outcome in zip(audits, outcomes, strict=True)
    ]
    rows += [(str(error.path or ""), "not audited", error.message) for error in unread]
    parts: list[PagePart] = [Table(title="Machines", head=("memory", "outcome", "report"), rows=rows)]
    parts.append(causes_part(finding for audit in audits for finding in findings_of(audit)))
    for title, lines_of in (("Not decided", _undecided), ("What was not checked", _unchecked)):
        lines = Counter(line for audit in audits for line in lines_of(audit))
        if lines:
            parts.append(
                BulletList(title=title, lines=[f"{line} ({counted(n, 'machine')})" for line, n in lines.items()])
            )
    worst: Badge = "failed" if unread or "failed" in outcomes else max(outcomes, key=_badness, default="passed")
    return Page(
        title="prologue live audit",
        subject=counted(len(rows), "machine"),
        facts=[
            ("vmlinux", path)
            for path in dict.fromkeys(str(f.path) for a in audits for f in a.files if f.name == KERNEL)
        ],
        date=verification_date(),
        outcome=worst,
        summary=counted_outcomes(audits, unread, lacking_allowed=lacking_allowed),
        parts=parts,
        command=command,
    )


def _undecided(audit: Audit) -> list[str]:
    return [*why_undecided(audit), *unknown_lines(audit, show_all=False)]


def _unchecked(audit: Audit) -> list[str]:
    return [*map(str, all_errors(audit)), *not_looked_at(audit)]


def counted_outcomes(audits: Sequence[Audit], unread: Sequence[PrologueError], *, lacking_allowed: bool) -> str:
    """Return a line such as ``10 machines: 1 failed, 2 not decided, 7 passed``."""
    counts: Counter[str] = Counter(outcome_of(audit, lacking_allowed=lacking_allowed) for audit in audits)
    counts["not audited"] = len(unread)
    parts = [f"{counts[what]:,} {what}" for what in ("not audited", "failed", "not decided", "passed") if counts[what]]
    return f"{counted(len(audits) + len(unread), 'machine')}: {', '.join(parts)}"


def _badness(outcome: Badge) -> int:
    return ("passed", "", "not decided", "failed").index(outcome)
