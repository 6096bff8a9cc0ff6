"""Executable memory as rules and slot maps read it, be it a file's or a running kernel's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy.typing as npt

from prologue.arrays import U32, U64, Bool
from prologue.elf.sections import Section, SectionMap


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
