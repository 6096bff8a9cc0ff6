"""Names of the addresses in a recording."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from typing import Final, NamedTuple

from prologue.live.pokes.recording import Function
from prologue.words import at_offset

_PAGE: Final = 12
_LONGEST: Final = 1 << 28  # bytes of a module's text; a function that claims more is compared with each address


class NamedPlace(NamedTuple):
    """An address by name: ``owner`` is a module or the like, empty for the kernel; ``name`` is empty if not known."""

    name: str
    owner: str
    offset: int

    def __str__(self) -> str:
        """Return the place as the kernel prints addresses: ``name+0x10 [module]``."""
        return at_offset(self.name, self.offset) + (f" [{self.owner}]" if self.owner else "")


class NameTable:
    """The functions of a recording, by address and time."""

    def __init__(self, functions: tuple[Function, ...]) -> None:
        self._always = sorted(f for f in functions if not f.owner)
        self._starts = [function.start for function in self._always]
        # Functions with an owner by page: memory of modules is used again, and a function is in its module's text.
        self._others: defaultdict[int, list[Function]] = defaultdict(list)
        self._long: list[Function] = []
        for function in sorted((f for f in functions if f.owner), key=lambda f: (f.since, f.start - f.end)):
            if function.end - function.start > _LONGEST:
                self._long.append(function)
                continue
            for page in range(function.start >> _PAGE, (function.end - 1 >> _PAGE) + 1):
                self._others[page].append(function)

    def place(self, vaddr: int, time: int) -> NamedPlace | None:
        """Return the function that was at an address at that time; None if it is not known."""
        for function in (*reversed(self._others.get(vaddr >> _PAGE, ())), *reversed(self._long)):
            if function.start <= vaddr < function.end and function.since <= time < function.until:
                return NamedPlace(function.name, function.owner, vaddr - function.start)
        k = bisect_right(self._starts, vaddr) - 1
        if k < 0 or vaddr >= self._always[k].end:
            return None
        return NamedPlace(self._always[k].name, "", vaddr - self._always[k].start)

    def text(self, vaddr: int, time: int) -> str:
        """Return the name for people, otherwise the address itself."""
        place = self.place(vaddr, time)
        return f"{vaddr:#x}" if place is None else str(place)
