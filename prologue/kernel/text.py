"""Executable memory as rules read it, be it a file's or a running kernel's, and sets of its instructions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from prologue.arrays import U32, U64, Bool, among_sorted, sorted_unique
from prologue.elf.sections import Section, SectionMap

_FEW: Final = 64  # sections whose arrays are looked into one after the other


class Text(Protocol):
    """Executable sections and their words, by link-time address; ``ElfImage`` is the one of a file."""

    text_sections: tuple[Section, ...]
    """Executable sections that have bytes, in the file's order."""

    @property
    def text_map(self) -> SectionMap[Section]:
        """The same, by address."""

    def view(self, section: Section, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """View the section's whole elements, read-only."""

    def read_at(self, vaddr: int, size: int) -> bytes | None:
        """Read bytes by address; None unless all of them are there, in one section."""

    def in_text(self, vaddrs: U64) -> Bool:
        """Return which addresses are 4-aligned and in one of the sections."""

    def words(self, vaddrs: U64) -> U32:
        """Return the instruction word at each address; 0 if there is no text."""

    def words_around(self, vaddrs: U64, distances: Iterable[int]) -> dict[int, U32]:
        """Return, by distance in instructions, the word that far from each address; 0 outside of its section."""


class SlotMap:
    """A set of instructions as one bit array per text section: a look-up beats a search for 600,000 branches."""

    def __init__(self, text: Text, vaddrs: U64) -> None:
        self._maps: list[tuple[np.uint64, Bool]] = []
        self._text = text.text_map
        for section, place in self._text.split(vaddrs):
            marked = np.zeros(section.size // 4 + 1, np.bool_)  # the last stands for all that is elsewhere
            offset = vaddrs[place] - np.uint64(section.addr)
            marked[(offset[offset < np.uint64(section.size & ~3)] >> np.uint64(2)).astype(np.int64)] = True
            self._maps.append((np.uint64(section.addr), marked))
        # With a section for each function, a search is quicker than a look into each section's array.
        self._members = sorted_unique(vaddrs[text.in_text(vaddrs)]) if len(self._maps) > _FEW else None

    def contains(self, vaddrs: U64) -> Bool:
        """Return which of the addresses are in the set; addresses inside of an instruction are not."""
        if self._members is not None:
            return among_sorted(vaddrs, self._members)
        result = np.zeros(len(vaddrs), np.bool_)
        for base, marked in self._maps:
            place = vaddrs - base
            place >>= np.uint64(2)
            result |= marked.take(place.view(np.int64), mode="clip")
        aligned: Bool = vaddrs & np.uint64(3) == 0
        return result & aligned
