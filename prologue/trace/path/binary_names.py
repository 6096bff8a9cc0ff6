"""Names of a program's text: its symbols as far as each goes, and elsewhere its sections, as objdump prints them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np

from prologue.arrays import U64
from prologue.elf.image import ElfImage
from prologue.elf.sections import Section
from prologue.elf.symbols import Symbol, Symbols
from prologue.errors import Location

_TABLES: Final = ("SHT_SYMTAB", "SHT_DYNSYM")  # a stripped file has only the latter
_NOWHERE: Final = np.uint64(0)


class BinaryNames(Symbols):
    """Names of a program or a library, which may be stripped.

    Most functions of a stripped library have no symbol, and neither has a PLT: the last symbol before such an address
    is another function's, if it has a size.
    """

    def __init__(self, image: ElfImage) -> None:
        self._image = image
        kinds = {section.type for section in image.sections if section.has_bytes}
        self._by_table = tuple(Symbols(image, kind) for kind in _TABLES if kind in kinds)

    @cached_property
    def place_starts(self) -> U64:
        """Addresses that ``locate`` names text by, ascending, each once."""
        places = np.unique(self.place_bounds[1])
        named: U64 = places[places != _NOWHERE]
        return named

    @cached_property
    def place_bounds(self) -> tuple[U64, U64]:
        """Addresses where what names an address changes, ascending, and the place that names what follows each or 0.

        The place of a section is where its nameless text begins: its first address may be a symbol's.
        """
        sections = sorted((section.addr, section.addr + section.size) for section in self._image.text_sections)
        firsts, stops = np.array(sections, np.uint64).reshape(-1, 2).T
        starts, ends = self._extents(firsts, stops)
        bounds = np.unique(np.concatenate([starts, ends, firsts, stops]))
        places, of_section = _places_of(bounds, starts, ends), _places_of(bounds, firsts, stops)
        nameless = (places == _NOWHERE) & (of_section != _NOWHERE)
        _, first, section = np.unique(of_section[nameless], return_index=True, return_inverse=True)
        places[nameless] = bounds[nameless][first][section]
        return bounds, places

    def _extents(self, firsts: U64, stops: U64) -> tuple[U64, U64]:
        """Return where the symbols of text begin, ascending, and where each ends: without a size, at the next one."""
        starts = np.concatenate([each.place_starts for each in self._by_table] or [firsts[:0]])
        sizes = np.concatenate([each.place_sizes for each in self._by_table] or [firsts[:0]])
        order = np.lexsort((sizes, starts))
        starts, sizes = starts[order], sizes[order]
        limits = np.append(stops, _NOWHERE)[np.searchsorted(firsts, starts, side="right") - 1]  # of the sections
        kept = (starts < limits) & np.append(starts[1:] != starts[:-1], np.ones(len(starts[:1]), np.bool_))
        starts, sizes, limits = starts[kept], sizes[kept], limits[kept]
        following = np.append(starts[1:], limits[-1:])
        return starts, np.minimum(np.where(sizes == 0, following, starts + sizes), limits)

    def locate(self, vaddr: int) -> Location:
        """Describe an address by its symbol or its section."""
        return self.locate_all([vaddr])[0]

    def locate_all(self, vaddrs: Sequence[int]) -> list[Location]:
        """Describe many addresses."""
        bounds, places = self.place_bounds
        rows = np.searchsorted(bounds, np.array(vaddrs, np.uint64), side="right") - 1
        return [
            self._locate(vaddr, int(places[row]) if row >= 0 else 0)
            for vaddr, row in zip(vaddrs, rows.tolist(), strict=True)
        ]

    def _locate(self, vaddr: int, place: int) -> Location:
        if not place:  # data, which only ADRP needs
            return self._by_table[0].locate(vaddr) if self._by_table else Location(vaddr)
        named = (each.locate(place) for each in self._by_table)
        name = next((where.symbol for where in named if where.symbol and where.symbol_offset == 0), None)
        section = self._image.section_at(place)
        if name is None and section is not None:
            return Location(vaddr, symbol=section.name, symbol_offset=vaddr - section.addr)
        return Location(vaddr, symbol=name, symbol_offset=vaddr - place)

    def with_prefix(self, prefix: str) -> tuple[Symbol, ...]:
        """Return symbols whose names begin with ``prefix``, and such sections where they have text without a symbol."""
        symbols = {symbol: None for each in self._by_table for symbol in each.with_prefix(prefix)}
        wanted = (each for each in self._image.text_sections if each.name.startswith(prefix))
        sections = (Symbol(each.name, place, each.size) for each in wanted if (place := self._place_of(each)))
        return (*symbols, *sections)

    def _place_of(self, section: Section) -> int:
        """Return where a section's nameless text begins, or 0."""
        low, high = np.searchsorted(self.place_starts, np.array([section.addr, section.addr + section.size], np.uint64))
        places = self.place_starts[low:high].tolist()
        return next((place for place in places if self._locate(place, place).symbol == section.name), 0)

    def has(self, name: str) -> bool:
        """Return whether a symbol or a section of text has this name."""
        return any(symbol.name == name for symbol in self.with_prefix(name))

    def function_names(self, prefix: str = "") -> list[str]:
        """Return the names of all functions that begin with ``prefix``, each once, sorted."""
        return sorted({name for each in self._by_table for name in each.function_names(prefix)})


def _places_of(vaddrs: U64, starts: U64, ends: U64) -> U64:
    """Return the start of what each address is in, or 0: of the last one that began, or else of that which ends last.

    ``starts`` ascend. What is inside of another thing, and ends before it, has its own name; the rest is the outer's.
    """
    if not len(starts):
        return np.zeros(len(vaddrs), np.uint64)
    row = np.searchsorted(starts, vaddrs, side="right") - 1
    reach = np.maximum.accumulate(ends)
    outer = np.maximum.accumulate(np.where(ends == reach, np.arange(len(ends)), 0))
    inner = np.where(vaddrs < ends[row], row, outer[row])
    return np.where((row >= 0) & (vaddrs < ends[inner]), starts[inner], _NOWHERE)
