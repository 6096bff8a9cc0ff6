"""Judges what is attached to a kernel: callbacks' owners, hidden modules, executable memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from prologue.live.hooks.callback_owners import of_tainted_modules, without_owner
from prologue.live.hooks.contents import foreign_code
from prologue.live.hooks.direct_views import disputed_direct_calls
from prologue.live.hooks.executable import unowned
from prologue.live.hooks.ftrace_views import miscounted
from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.livepatch_views import hidden_patches
from prologue.live.hooks.module_views import hidden_modules
from prologue.live.hooks.readonly import changed_data
from prologue.live.hooks.timers import timers_without_owner
from prologue.live.structs.objects import NotKnown, noted
from prologue.rules.base import Hit


class HooksJudged(NamedTuple):
    """Suspects, each by the code of its rule and at a run-time address, and what could not be judged."""

    suspects: tuple[tuple[str, Hit], ...]
    not_known: tuple[NotKnown, ...]


HookCheck = tuple[str, str, Callable[[Inventory], Iterator[Hit]]]
OF_LISTENERS: Final[tuple[HookCheck, ...]] = (
    ("owners of callbacks", "PL509", without_owner),
    ("users of functions", "PL514", miscounted),
    ("direct calls", "PL514", disputed_direct_calls),
    ("hidden livepatches", "PL510", hidden_patches),
    ("modules of callbacks", "PL515", of_tainted_modules),
)
"""Checks of what an inventory lists."""
OF_LISTS: Final[tuple[HookCheck, ...]] = (
    *OF_LISTENERS,
    ("hidden modules", "PL510", hidden_modules),
    ("executable memory", "PL511", unowned),
    ("code of BPF and kprobes", "PL511", foreign_code),
)
"""Checks that a capture takes the memory of along."""
EVERY: Final[tuple[HookCheck, ...]] = (
    *OF_LISTS,
    ("timers", "PL509", timers_without_owner),
    ("read-only data", "PL512", changed_data),
)
"""All checks."""


def judge(inventory: Inventory, checks: tuple[HookCheck, ...] = EVERY) -> HooksJudged:
    """Run checks; one that cannot be made is named."""
    suspects: list[tuple[str, Hit]] = []
    not_known: list[NotKnown] = []
    for what, code, check in checks:
        with noted(not_known, what):
            suspects.extend((code, hit) for hit in check(inventory))  # what it finds before it fails counts
    return HooksJudged(tuple(suspects), tuple(not_known))
