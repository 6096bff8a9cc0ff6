"""Judges what is attached to a kernel: callbacks' owners, hidden modules, executable memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from prologue.live.hooks.callback_owners import without_owner
from prologue.live.hooks.contents import foreign_code
from prologue.live.hooks.direct_views import disputed_direct_calls
from prologue.live.hooks.executable import unowned
from prologue.live.hooks.ftrace_views import miscounted
from prologue.live.hooks.inventory import Inventory, Suspect
from prologue.live.hooks.livepatch_views import hidden_patches
from prologue.live.hooks.module_views import hidden_modules
from prologue.live.hooks.objects import NotKnown, noted
from prologue.live.hooks.readonly import changed_data


class HooksJudged(NamedTuple):
    """Suspects, and what could not be judged."""

    suspects: tuple[Suspect, ...]
    not_known: tuple[NotKnown, ...]


_CHECKS: Final[tuple[tuple[str, Callable[[Inventory], Iterator[Suspect]]], ...]] = (
    ("owners of callbacks", without_owner),
    ("users of functions", miscounted),
    ("direct calls", disputed_direct_calls),
    ("hidden modules", hidden_modules),
    ("hidden livepatches", hidden_patches),
    ("executable memory", unowned),
    ("code of BPF and kprobes", foreign_code),
)
_OF_DATA: Final = ("read-only data", changed_data)


def judge(inventory: Inventory, *, with_data: bool = True) -> HooksJudged:
    """Run every check; one that cannot be made is named. Without ``with_data``, read-only data are left out."""
    suspects: list[Suspect] = []
    not_known: list[NotKnown] = []
    for what, check in (*_CHECKS, _OF_DATA) if with_data else _CHECKS:
        with noted(not_known, what):
            suspects.extend(check(inventory))  # what it finds before it fails counts
    return HooksJudged(tuple(suspects), tuple(not_known))
