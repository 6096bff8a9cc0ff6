"""Which section an address is in, by bisection: a module may have as many sections as functions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from prologue.arrays import I64, U64

if TYPE_CHECKING:
    from prologue.elf.image import Section


class SectionMap:
    """Sections that share no address, by address; empty ones are left out."""

    def __init__(self, sections: Iterable[Section]) -> None:
        self.sections = sorted((s for s in sections if s.size), key=lambda section: section.addr)
        self._low = [s.addr for s in self.sections]
        self._starts = np.array(self._low, np.uint64)
        self._ends = np.array([s.addr + s.size for s in self.sections], np.uint64)

    def find(self, vaddr: int) -> Section | None:
        """Return the section whose addresses contain ``vaddr``."""
        at = bisect_right(self._low, vaddr) - 1
        return self.sections[at] if at >= 0 and vaddr in self.sections[at] else None

    def indices(self, vaddrs: U64) -> I64:
        """Index in ``sections`` of the section that each address is in, -1 where there is none; shape of ``vaddrs``."""
        if not self.sections:
            return np.full(vaddrs.shape, -1, np.int64)
        index = np.searchsorted(self._starts, vaddrs, side="right") - 1
        return np.where(vaddrs < self._ends[index], index, -1)  # below all of them, index is -1: the last one's end

    def split(self, vaddrs: U64) -> Iterator[tuple[Section, slice | I64]]:
        """For each section with addresses of the array, shape (n,), where they stand: a slice if all ascend."""
        ascends = bool((vaddrs[1:] >= vaddrs[:-1]).all())
        order = None if ascends else np.argsort(vaddrs, kind="stable")
        ordered = vaddrs if order is None else vaddrs[order]
        firsts = np.searchsorted(ordered, self._starts)
        lasts = np.searchsorted(ordered, self._ends)
        for k in np.flatnonzero(lasts > firsts).tolist():
            place = slice(int(firsts[k]), int(lasts[k]))
            yield self.sections[k], place if order is None else order[place]
