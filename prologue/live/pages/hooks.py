"""The page of what is attached to a kernel: its listeners, what they do by function, and where they are in the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from prologue.arrays import U64
from prologue.gate.identity import verification_date
from prologue.live.audit.audited import OwnedWords
from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.listener import Listener
from prologue.live.memory.ranges import TOP
from prologue.live.pages.text_map import map_of_strips
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
    if strips := _strips(inventory):
        parts.append(map_of_strips(inventory.kernel.path, strips, says="listened to"))
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


def _strips(inventory: Inventory) -> list[OwnedWords]:
    """Make a strip for each kind of listener: words of the kernel's own text where one listens."""
    kernel = inventory.kernel
    places: dict[str, list[U64]] = {}
    for listener in inventory.listeners:
        places.setdefault(listener.kind, []).append(_places(inventory, listener))
    strips = []
    for kind, parts in places.items():
        vaddrs: U64 = np.unique(np.concatenate(parts))
        vaddrs = vaddrs[kernel.live_text.in_text(vaddrs)]
        if len(vaddrs):
            strips.append(OwnedWords(kind, vaddrs, kernel.image.words(vaddrs), kernel.live_text.words(vaddrs)))
    return strips


def _places(inventory: Inventory, listener: Listener) -> U64:
    """Return link-time addresses of a listener's places; of one that listens everywhere, all second slots."""
    kernel = inventory.kernel
    if listener.functions is not None:
        return np.array([place - kernel.slide & TOP for place in listener.functions], np.uint64)
    return np.zeros(0, np.uint64) if kernel.sites is None else kernel.sites.second
