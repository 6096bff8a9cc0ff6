"""The report of ``live hooks``: an inventory, what is wrong in it, and which listeners are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from prologue.live.hooks.expected import Expected
from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.listener import Listener
from prologue.rules.base import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class HookListing:
    """An inventory; ``not_known`` are its gaps, and what could not be decided.

    ``expected`` has by number of the listener the entry that covers it, None if nothing was said to be expected;
    ``unused`` are entries that cover nothing.
    """

    inventory: Inventory
    findings: tuple[Finding, ...] = ()
    not_known: tuple[str, ...] = ()
    expected: Mapping[int, Expected] | None = None
    unused: tuple[Expected, ...] = ()

    def compared(self, entries: Sequence[Expected], expected: Mapping[int, Expected]) -> HookListing:
        """Return the listing with what was expected of it."""
        used = set(expected.values())
        return replace(self, expected=expected, unused=tuple(entry for entry in entries if entry not in used))

    @property
    def new(self) -> tuple[Listener, ...]:
        """Listeners that no entry covers; none if nothing was said to be expected."""
        if self.expected is None:
            return ()
        return tuple(each for number, each in enumerate(self.inventory.listeners) if number not in self.expected)
