"""Listeners whose code is in modules that are unsigned, out of tree, or were loaded by force."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.live.hooks.callback_owners import called, place_of_listener
from prologue.live.hooks.inventory import Inventory
from prologue.rules.base import Hit

# TAINT_FORCED_MODULE, TAINT_OOT_MODULE, TAINT_UNSIGNED_MODULE (include/linux/panic.h, 5.10-7.3).
_TAINTS: Final = {13: "unsigned", 12: "out-of-tree", 1: "loaded by force"}


def of_tainted_modules(inventory: Inventory) -> Iterator[Hit]:
    """Yield listeners with code of such a module, one for each listener."""
    tainted = {
        module: words
        for module in inventory.owners.modules
        if (words := [word for bit, word in _TAINTS.items() if module.taints >> bit & 1])
    }
    for listener in inventory.listeners if tainted else ():
        for role, vaddr in listener.callbacks:
            module = next((each for each in tainted if any(vaddr in part for part in each.text)), None)
            if module is not None:
                why = f"of the module {module.name}, which is {' and '.join(tainted[module])}"
                message = f"{called(listener)}: its {role} is {inventory.owners.name(vaddr)}, {why}"
                yield Hit(place_of_listener(listener), message)
                break
