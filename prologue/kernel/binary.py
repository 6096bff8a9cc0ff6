"""Common properties of a vmlinux and a module, so that one rule can look at either."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prologue.arrays import I64, U32, U64, Bool
from prologue.elf.image import ElfImage
from prologue.elf.notes import gnu_build_id
from prologue.elf.sections import Section
from prologue.elf.symbols import Symbols
from prologue.insn.decode import branches, jump_distance
from prologue.kernel.other_layout import OtherLayouts, find_other_layouts
from prologue.kernel.records import Records
from prologue.kernel.sites import NO_SITES, EntryPairs, Layout, Sites, find_entry_pairs, find_sites
from prologue.kernel.state import State
from prologue.kernel.text import SlotMap, Text
from prologue.releases import version_of


class Pointers(NamedTuple):
    """Places in data that will hold an address, and the address; arrays of shape (n,)."""

    places: U64
    targets: U64


class Binary(ABC):
    """A file with patch sites. Properties are read when first asked for."""

    def __init__(self, image: ElfImage) -> None:
        self.path: Path = image.path
        self.image = image
        self.symbols = Symbols(image)
        self._branches: dict[int, tuple[I64, U64]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @property
    def text(self) -> Text:
        """The executable memory that is looked at: here the file's."""
        return self.image

    @property
    def relocatable(self) -> bool:
        """True if this is a module, whose addresses are made up."""
        return self.image.relocatable

    @property
    @abstractmethod
    def records(self) -> Records | None:
        """All records, or None if there is no readable table."""

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """``-fpatchable-function-entry`` that the file was built with."""

    @property
    @abstractmethod
    def state(self) -> State:
        """Progress of processing."""

    @property
    @abstractmethod
    def release(self) -> str:
        """The kernel release that it is, or was built for; empty if unknown."""

    @cached_property
    def version(self) -> tuple[int, int] | None:
        """Major and minor of the kernel release; None if unknown."""
        return version_of(self.release)

    @property
    @abstractmethod
    def pointers(self) -> Pointers:
        """Every relocated address in data, records included; in a module those in instructions, too."""

    @abstractmethod
    def _find_branches(self, section: Section) -> tuple[I64, U64]:
        """Decode what ``branches`` gives."""

    @abstractmethod
    def relative32(self, fields: U64) -> U64:
        """Return the addresses that 4-byte fields at these addresses hold as distances from themselves."""

    @abstractmethod
    def relative64(self, fields: U64) -> U64:
        """Return the addresses that 8-byte fields at these addresses hold as distances from themselves."""

    @abstractmethod
    def absolute64(self, fields: U64) -> U64:
        """Return the addresses that 8-byte fields at these addresses hold."""

    @cached_property
    def sites(self) -> Sites | None:
        """The site of every record that points into text; None without a readable table."""
        return self._find_sites(self.text)

    def _find_sites(self, text: Text) -> Sites | None:
        records = self.records
        return find_sites(text, self.symbols, records, self.layout, moved=self.moves_records) if records else None

    @property
    def moves_records(self) -> bool | None:
        """True if all records, False if none, are at second slots; None if the file does not say."""
        return None

    @cached_property
    def other_layouts(self) -> OtherLayouts:
        """Sites of objects that were compiled for another layout: PL208 reports them, and no other rule does."""
        sites, records = self.sites or NO_SITES, self.records
        return find_other_layouts(
            self.text, self.symbols, sites, records.values[sites.record] if records else sites.first
        )

    @cached_property
    def unnamed_functions(self) -> int:
        """Number of sites at no function symbol, if so many that symbols of functions were stripped; otherwise 0.

        Overridden weak functions leave some such sites, too: 8 in 1,000 in Debian's 6.1. A record that leads to no
        pair of slots says nothing of symbols: it is damaged, and PL201 reports it.
        """
        if self.sites is None or not len(self.sites):
            return 0
        named = self.symbols.is_function_start(self.sites.entry) | self.symbols.is_function_start(self.sites.first)
        lost = int((~named & (self.sites.has_nop | self.sites.has_mov)).sum())
        return lost if 2 * lost > len(named) or (lost >= 8 and 20 * lost > len(named)) else 0

    @cached_property
    def second_slots(self) -> SlotMap:
        """Every second slot."""
        return SlotMap(self.text, (self.sites or NO_SITES).second)

    @cached_property
    def entry_pairs(self) -> EntryPairs:
        """The pairs at function entries, and which of them no record lists."""
        return find_entry_pairs(self.text, self.symbols, self.sites or NO_SITES)

    @cached_property
    def build_id(self) -> str:
        """The GNU build-id in hex; empty if there is none."""
        return gnu_build_id(self.image)

    def branches(self, section: Section) -> tuple[I64, U64]:
        """Return index and target of every direct branch in the section's words; targets elsewhere are left out."""
        if section.index not in self._branches:  # two rules ask, and decoding a kernel's text takes a while
            self._branches[section.index] = self._find_branches(section)
        return self._branches[section.index]

    def jump_targets(self, vaddrs: U64, words: U32) -> U64:
        """Return the target of a B or BL at each address; the words are those at the addresses."""
        return vaddrs + jump_distance(words).view(np.uint64)

    def insn_text(self, word: int, vaddr: int) -> str:
        """Disassemble a word; in a module, which has no addresses, it goes to an offset in the section."""
        from prologue.insn.disasm import insn_text

        section = self.image.section_at(vaddr) if self.relocatable else None
        return insn_text(word, vaddr - (section.addr if section else 0))

    def is_code(self, vaddrs: U64) -> Bool:
        """Return which of the addresses in text are instructions and not data between them."""
        result = np.zeros(len(vaddrs), np.bool_)
        for section, place in self.text.text_map.split(vaddrs):
            inside = vaddrs[place] - np.uint64(section.addr) < np.uint64(section.size & ~3)
            result[place] = inside & self.symbols.is_code_at(section, vaddrs[place])
        return result


class LinkedBinary(Binary):
    """A file whose fields hold what they refer to: no relocation is left to do, except of addresses."""

    def _find_branches(self, section: Section) -> tuple[I64, U64]:
        """Return every direct branch among the section's words, data in text included."""
        return branches(self.text.view(section, "<u4"), section.addr)

    def relative32(self, fields: U64) -> U64:
        """Read the distances that the linker resolved; 0 for fields outside of the file."""
        inside, words = self._read_fields(fields, 4)
        distance = words.astype(np.uint32).view(np.int32).astype(np.int64)
        return np.where(inside, fields + distance.view(np.uint64), np.uint64(0))

    def relative64(self, fields: U64) -> U64:
        """Read the distances that the linker resolved; 0 for fields outside of the file."""
        inside, words = self._read_fields(fields, 8)
        return np.where(inside, fields + words, np.uint64(0))

    def _read_fields(self, fields: U64, width: int) -> tuple[Bool, U64]:
        """Return which fields are in the file, and the ``width`` (4 or 8) bytes of each; 0 outside."""
        offsets = self.image.offsets(fields)
        inside = offsets >= 0
        words = np.zeros(len(fields), np.uint64)
        words[inside] = self.image.words_at(offsets[inside], width)
        return inside, words
