"""Follows what is attached to a running kernel, for a capture: everything that an inventory and its judge read.

They run on the live memory, and each range that they read is kept: a capture then has the same lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from prologue.live.hooks.inventory import take_inventory
from prologue.live.hooks.run import OF_LISTS, judge
from prologue.live.memory.base import Memory
from prologue.live.memory.take import FollowMore
from prologue.live.structs.objects import Objects
from prologue.live.structs.variables import KeptVariables
from prologue.live.system.running_kernel import RunningKernel, open_running

_AHEAD: Final = 16  # pages that are read together: another question takes longer than to send them
_NEAR: Final = 64  # bytes between two ranges that are kept as one: of one struct, mostly
# A second look asks for all at once, so that less changes meanwhile; more are for lists that led nowhere.
_LOOKS, _MOST_LOOKS = 2, 4


def follow_hooks(vmlinux: Path, memory: Memory) -> FollowMore:
    """Make what finds all that is attached, in memory that may be far away.

    It returns addresses and bytes, ascending and apart; if something is wrong or led nowhere, of a later look, which
    asks for most of it with one question.

    Raises:
        InputError: the vmlinux cannot be read, or is of another kernel.

    """
    # Whose code an address is depends on where text is, and not on its words.
    kernel = RunningKernel(open_running(vmlinux, memory), memory, as_linked=True)
    pages: frozenset[int] = frozenset()

    def follow(memory: Memory) -> Sequence[tuple[int, bytes]]:
        nonlocal pages
        for look in range(1, _MOST_LOOKS + 1):
            variables = _Followed.of_kernel(kernel, memory)
            variables.fetch(pages)
            inventory = take_inventory(kernel, Objects(variables))
            judged = judge(inventory, OF_LISTS)
            for listener in inventory.listeners:  # what names code and places: a report of the capture does
                for place in (*(vaddr for _, vaddr in listener.callbacks), *(listener.functions or ())):
                    inventory.owners.name(place)
            pages = variables.pages
            gaps = (*judged.not_known, *inventory.not_known)
            if not (gaps or judged.suspects) or (look >= _LOOKS and not any(gap.is_open for gap in gaps)):
                break
        return variables.pieces(_NEAR)

    return follow


class _Followed(KeptVariables):
    """Variables that are read with their neighbours."""

    @property
    def pages(self) -> frozenset[int]:
        """Numbers of all pages that were asked for."""
        return frozenset(self._pages)

    def fetch(self, pages: Iterable[int]) -> None:
        """Read pages as ``Variables.fetch``, and those around them."""
        missing = {page // _AHEAD for page in pages if page not in self._pages}
        super().fetch(page for group in missing for page in range(group * _AHEAD, (group + 1) * _AHEAD))
