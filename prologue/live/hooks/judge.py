"""Judges what is attached to a kernel: callbacks' owners, hidden modules, executable memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from prologue.live.audit.locks import is_held
from prologue.live.hooks.direct_views import disputed_direct_calls
from prologue.live.hooks.executable import unowned
from prologue.live.hooks.ftrace_views import miscounted
from prologue.live.hooks.inventory import Inventory
from prologue.live.hooks.livepatch_views import hidden_patches
from prologue.live.hooks.module_views import hidden_modules
from prologue.live.hooks.objects import NotKnown, NotKnownError, NotReadError
from prologue.live.hooks.page_tables import PageTables
from prologue.live.hooks.readonly import changed_data
from prologue.live.hooks.suspects import Suspect, without_owner
from prologue.words import counted


class HooksJudged(NamedTuple):
    """Suspects, and what could not be judged."""

    suspects: tuple[Suspect, ...]
    not_known: tuple[NotKnown, ...]


def _modules(inventory: Inventory) -> Iterator[Suspect]:
    _require_rest(inventory)
    if not inventory.owners.lists_modules:
        raise NotKnownError("the list of modules cannot be read")
    for vaddr, message in hidden_modules(inventory.objects, inventory.owners, inventory.unlisted):
        yield Suspect("module", vaddr, message)


def _executable(inventory: Inventory) -> Iterator[Suspect]:
    _require_rest(inventory)
    pages = PageTables(inventory.objects, inventory.kernel.memory.info).executable()
    for vaddr, message in unowned(inventory.kernel, inventory.objects, inventory.owners, pages):
        yield Suspect("executable", vaddr, message)


def _require_rest(inventory: Inventory) -> None:
    """Refuse to judge while modules are loaded or unloaded: one that goes is on no list, and still in memory.

    ``free_module`` (kernel/module/main.c, 6.1-7.3) waits for RCU in between, with ``module_mutex``.
    """
    if is_held(inventory.objects.variables, "module_mutex"):
        raise NotReadError("a module was being loaded or unloaded (module_mutex is held)")


def _data(inventory: Inventory) -> Iterator[Suspect]:
    for change in changed_data(inventory):
        place = change.vaddr + inventory.kernel.slide & (1 << 64) - 1
        yield Suspect("data", place, change.message, (change.live, change.linked))


def _views(inventory: Inventory) -> Iterator[Suspect]:
    for group in miscounted(inventory.objects):
        users = counted(group.counted, "user")
        message = f"its record counts {users}, and the list of ftrace_ops has {group.listed:,} for it"
        if group.counted == group.listed:
            message = "its record is enabled, and neither counts a user nor has the list of ftrace_ops one for it"
        if len(group.places) > 1:
            message += f", as for {counted(len(group.places) - 1, 'more function')}"
        yield Suspect("views", group.places[0], message)


def _direct_calls(inventory: Inventory) -> Iterator[Suspect]:
    for dispute in disputed_direct_calls(inventory.objects):
        more = f", as for {counted(len(dispute.places) - 1, 'more function')}" if len(dispute.places) > 1 else ""
        yield Suspect("views", dispute.places[0], f"{dispute.message}{more}")


def _livepatches(inventory: Inventory) -> Iterator[Suspect]:
    for patch in hidden_patches(inventory.objects, inventory.owners):
        yield Suspect("module", patch.vaddr, patch.message)


_CHECKS: Final[tuple[tuple[str, Callable[[Inventory], Iterator[Suspect]]], ...]] = (
    ("owners of callbacks", without_owner),
    ("users of functions", _views),
    ("direct calls", _direct_calls),
    ("hidden modules", _modules),
    ("hidden livepatches", _livepatches),
    ("executable memory", _executable),
)
_OF_DATA: Final = ("read-only data", _data)


def judge(inventory: Inventory, *, with_data: bool = True) -> HooksJudged:
    """Run every check; one that cannot be made is named. Without ``with_data``, read-only data are left out."""
    suspects: list[Suspect] = []
    not_known: list[NotKnown] = []
    for what, check in (*_CHECKS, _OF_DATA) if with_data else _CHECKS:
        try:
            suspects.extend(check(inventory))  # what it finds before it fails counts
        except NotKnownError as error:
            not_known.append(NotKnown.of(what, error))
    return HooksJudged(tuple(suspects), tuple(not_known))
