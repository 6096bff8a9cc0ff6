"""Audits of several machines that run one kernel as one page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain

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
    undecided = [[*why_undecided(audit), *unknown_lines(audit, show_all=False)] for audit in audits]
    unchecked = [[*map(str, all_errors(audit)), *not_looked_at(audit)] for audit in audits]
    for title, of_audits in (("Not decided", undecided), ("What was not checked", unchecked)):
        lines = Counter(chain.from_iterable(of_audits))
        if lines:
            parts.append(
                BulletList(title=title, lines=[f"{line} ({counted(n, 'machine')})" for line, n in lines.items()])
            )
    badness: tuple[Badge, ...] = ("failed", "not decided", "passed")
    worst: Badge = "failed" if unread else next((outcome for outcome in badness if outcome in outcomes), "passed")
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


def counted_outcomes(audits: Sequence[Audit], unread: Sequence[PrologueError], *, lacking_allowed: bool) -> str:
    """Return a line such as ``10 machines: 1 failed, 2 not decided, 7 passed``."""
    counts: Counter[str] = Counter(outcome_of(audit, lacking_allowed=lacking_allowed) for audit in audits)
    counts["not audited"] = len(unread)
    parts = [f"{counts[what]:,} {what}" for what in ("not audited", "failed", "not decided", "passed") if counts[what]]
    return f"{counted(len(audits) + len(unread), 'machine')}: {', '.join(parts)}"
