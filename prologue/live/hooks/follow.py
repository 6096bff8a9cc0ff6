"""Follows what is attached to a running kernel, for a capture: everything that an inventory and its judge read.

They run on the live memory, and each range that they read is kept: a capture then has the same lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from prologue.live.hooks.inventory import take_inventory
from prologue.live.hooks.judge import OF_LISTS, judge
from prologue.live.memory.base import Memory
from prologue.live.structs.objects import Objects
from prologue.live.structs.variables import KeptVariables
from prologue.live.system.running_kernel import RunningKernel, open_running

_AHEAD: Final = 16  # pages that are read together: another question takes longer than to send them
_NEAR: Final = 64  # bytes between two ranges that are kept as one: of one struct, mostly
# A second look asks for all at once, so that less changes meanwhile; more are for lists that led nowhere.
_LOOKS, _MOST_LOOKS = 2, 4


class FollowHooks:
    """Finds what is attached in memory that may be far away; a later look asks for most of it with one question.

    Raises:
        InputError: the vmlinux cannot be read, or is of another kernel.

    """

    def __init__(self, vmlinux: Path, memory: Memory) -> None:
        image = open_running(vmlinux, memory)
        # Whose code an address is depends on where text is, and not on its words.
        self._kernel = RunningKernel(image, memory, as_linked=True)
        self._pages: frozenset[int] = frozenset()

    def __call__(self, memory: Memory) -> Sequence[tuple[int, bytes]]:
        """Return addresses and bytes, ascending and apart; if something is wrong or led nowhere, of a later look.

        Raises:
            InputError: memory cannot be read.

        """
        kernel = self._kernel
        for look in range(1, _MOST_LOOKS + 1):
            variables = _Followed.of_kernel(kernel, memory)
            variables.fetch(self._pages)
            inventory = take_inventory(kernel, Objects(variables))
            judged = judge(inventory, OF_LISTS)
            for listener in inventory.listeners:  # what names code and places: a report of the capture does
                for place in (*(vaddr for _, vaddr in listener.callbacks), *(listener.functions or ())):
                    inventory.owners.name(place)
            self._pages = variables.pages
            gaps = (*judged.not_known, *inventory.not_known)
            if not (gaps or judged.suspects) or (look >= _LOOKS and not any(gap.is_open for gap in gaps)):
                break
        return variables.pieces(_NEAR)


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
