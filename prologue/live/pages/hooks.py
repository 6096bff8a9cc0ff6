"""The page of what is attached to a kernel: its listeners, and what they do by function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prologue.gate.identity import verification_date
from prologue.live.report.hooks import (
    FUNCTION_HEAD,
    LISTENER_HEAD,
    HookListing,
    finding_lines,
    function_rows,
    hooks_closing,
    listener_rows,
)
from prologue.report.html.page import BulletList, Page, PagePart, Table

_MANY: Final = 200  # rows from which on the table by function is folded
_MOST: Final = 20_000  # rows of it; a page has a limit


def hooks_page(listing: HookListing, command: Sequence[str]) -> Page:
    """Make the page; ``command`` has the words that make it again."""
    inventory = listing.inventory
    rows = listener_rows(inventory)
    parts: list[PagePart] = [Table(title="Listeners", head=(*LISTENER_HEAD, "flags and more"), rows=rows)]
    if table := function_rows(inventory):
        note = f"The first {_MOST:,} of {len(table):,} rows: --json has all." if len(table) > _MOST else ""
        folded = len(table) > _MANY
        parts.append(Table(title="By function", head=FUNCTION_HEAD, rows=table[:_MOST], folded=folded, note=note))
    lines = [*finding_lines(listing), *listing.not_known] or [
        "Every list was read, and nothing is wrong with a listener."
    ]
    parts.append(BulletList(title="Not known", lines=lines))
    return Page(
        title="prologue live hooks",
        subject=inventory.kernel.memory.name,
        facts=[
            ("memory", inventory.kernel.memory.name),
            ("vmlinux", str(inventory.kernel.path)),
            ("kernel", inventory.kernel.running_release or "release unknown"),
        ],
        date=verification_date(),
        outcome="",
        summary=hooks_closing(listing),
        parts=parts,
        command=command,
    )
