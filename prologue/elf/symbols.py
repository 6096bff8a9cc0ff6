"""The symbol table as arrays: look-up by name, and symbol+offset by address."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64, Bool, among, among_sorted, sorted_unique
from prologue.elf.image import ElfImage, unaligned
from prologue.elf.sections import Section
from prologue.errors import InputError, Location

# Elf64_Sym (System V gABI, "Symbol Table")
SYM = np.dtype([("name", "<u4"), ("info", "u1"), ("other", "u1"), ("shndx", "<u2"), ("value", "<u8"), ("size", "<u8")])
SHN_UNDEF, SHN_LORESERVE, SHN_ABS, SHN_XINDEX = 0, 0xFF00, 0xFFF1, 0xFFFF
STB_LOCAL = 0
STT_NOTYPE, STT_OBJECT, STT_FUNC, STT_GNU_IFUNC = 0, 1, 2, 10
_END = re.compile(r"(^|_)(end|stop)(_|$)")  # a linker script's symbol for where something ends


class Symbol(NamedTuple):
    """A symbol of the file."""

    name: str
    vaddr: int
    size: int


class Symbols:
    """The file's ``.symtab``, or with ``SHT_DYNSYM`` the symbols for its dynamic linker.

    Raises:
        InputError: no symbol table, or one whose entries point outside of their string table.

    """

    def __init__(self, image: ElfImage, kind: str = "SHT_SYMTAB") -> None:
        self._image = image
        table = next((s for s in image.sections if s.type == kind and s.has_bytes), None)
        if table is None:
            what = "module" if image.relocatable else "vmlinux"
            raise InputError(f"no symbol table: stripped? This needs the unstripped {what}", path=image.path)
        if table.entsize != SYM.itemsize or table.size % SYM.itemsize:
            raise InputError(f"symbol table entries of {table.entsize} bytes, expected 24", path=image.path)
        if table.link >= len(image.sections) or image.sections[table.link].type != "SHT_STRTAB":
            raise InputError("symbol table without its string table", path=image.path)
        self._strings: Section = image.sections[table.link]
        self.table = image.view(table, SYM)
        if len(self.table) and int(self.table["name"].max()) >= self._strings.size:
            raise InputError("symbol names lie outside the string table", path=image.path)
        # Fields side by side in memory: look-ups compare all of them at once.
        self._names = np.ascontiguousarray(self.table["name"])
        self._sections = _section_indices(image, table, self.table)
        self._values = _addresses(image, self.table, self._sections)

    @cached_property
    def _text(self) -> bytes:
        """The names, each with a zero after it, and eight more: every name is followed by as many bytes."""
        return self._image.data(self._strings) + b"\0" * 8

    def _name(self, offset: int) -> str:
        return self._text[offset : self._text.index(b"\0", offset)].decode("utf-8", "backslashreplace")

    def name_of(self, row: int) -> str:
        """Return the name of the symbol in that row of the table."""
        return self._name(int(self._names[row]))

    def find(self, name: str) -> Symbol | None:
        """Return the defined symbol of that name; a global one before local ones."""
        hits = self._rows_with_prefix(name + "\0")
        if not len(hits):
            return None
        best = hits[np.argmax(self.table["info"][hits] >> 4)]  # binding 0 is local
        return Symbol(name, int(self._values[best]), int(self.table["size"][best]))

    def require(self, name: str) -> Symbol:
        """Find a symbol that a kernel like this one has.

        Raises:
            InputError: it is gone.

        """
        symbol = self.find(name)
        if symbol is None:
            message = f"stripped in part: the symbol {name} is gone: give the vmlinux as it was linked"
            raise InputError(message, path=self._image.path)
        return symbol

    def is_global(self, name: str) -> bool:
        """Return whether a symbol of that name is seen by other object files: global or weak."""
        return bool((self.table["info"][self._rows_with_prefix(name + "\0")] >> 4 != STB_LOCAL).any())

    @property
    def values(self) -> U64:
        """Address of each symbol in table order; in a module these are the laid-out ones."""
        return self._values

    @property
    def named_values(self) -> U64:
        """Address of each symbol that has a name and is no mapping symbol, in table order."""
        named = (self._names != 0) & (self._string_bytes[self._names] != ord("$"))
        values: U64 = self._values[named]
        return values

    @cached_property
    def defined(self) -> Bool:
        """Mask of the symbols, in table order, that name a place in an allocated section of this file."""
        allocated = np.array([section.allocated for section in self._image.sections])
        known = (self._sections != SHN_UNDEF) & (self._sections < len(allocated))
        is_defined: Bool = known & allocated[np.where(known, self._sections, 0)]
        return is_defined

    def names_at(self, vaddr: int) -> tuple[str, ...]:
        """Return the names of all defined symbols at exactly ``vaddr``, in table order; no mapping symbols."""
        hits = np.flatnonzero(self._values == vaddr)
        hits = hits[self.table["shndx"][hits] != SHN_UNDEF]
        names = (self._name(offset) for offset in self._names[hits].tolist() if offset)
        return tuple(name for name in names if not name.startswith(("$", ".L")))

    def function_at(self, vaddr: int) -> Symbol | None:
        """Return the function that begins at ``vaddr``, the longest if there are several; None if there is none."""
        rows = np.flatnonzero(self._values == vaddr)
        rows = rows[(self.table["info"][rows] & 15 == STT_FUNC) & (self.table["shndx"][rows] != SHN_UNDEF)]
        if not len(rows):
            return None
        row = int(rows[np.argmax(self.table["size"][rows])])
        return Symbol(self._name(int(self._names[row])), vaddr, int(self.table["size"][row]))

    def function_names(self, prefix: str = "") -> list[str]:
        """Return the names of all defined functions that begin with ``prefix``, each once, sorted."""
        rows = self._rows_with_prefix(prefix)
        rows = rows[(self.table["info"][rows] & 15 == STT_FUNC) & self.defined[rows] & (self._names[rows] != 0)]
        return sorted({self._name(offset) for offset in self._names[rows].tolist()})

    @cached_property
    def function_starts(self) -> U64:
        """Sorted addresses of all function symbols."""
        functions = (self.table["info"] & 15 == STT_FUNC) & (self.table["shndx"] != SHN_UNDEF)
        return np.sort(self._values[functions], kind="stable")

    def is_function_start(self, vaddrs: U64) -> Bool:
        """Return which of the addresses are the value of a function symbol."""
        return among_sorted(vaddrs, self.function_starts)

    def is_global_function(self, vaddrs: U64) -> Bool:
        """Return which of the addresses are the value of a function symbol that other object files see."""
        info = self.table["info"]
        functions = (info & 15 == STT_FUNC) & (info >> 4 != STB_LOCAL) & (self.table["shndx"] != SHN_UNDEF)
        return among(vaddrs, self._values[functions])

    def with_prefix(self, prefix: str) -> tuple[Symbol, ...]:
        """Return every defined symbol whose name begins with ``prefix``, in table order."""
        rows = self._rows_with_prefix(prefix)
        return tuple(
            Symbol(self._name(int(self._names[row])), int(self._values[row]), int(self.table["size"][row]))
            for row in rows.tolist()
        )

    def _rows_with_prefix(self, prefix: str) -> npt.NDArray[np.int64]:
        wanted = prefix.encode()
        head = np.uint64(int.from_bytes(wanted[:8], "little"))
        if len(wanted) >= 8:
            rows = np.flatnonzero(self._mixed == _mix(np.array([head])))
            rows = rows[self._heads[rows] == head]
        else:
            beyond = np.uint64((1 << 8 * len(wanted)) - 1)  # what follows a short prefix is masked out
            rows = np.flatnonzero(self._heads & beyond == head)
        # What lies after the table is no name.
        rows = rows[self._names[rows] + np.uint64(len(wanted)) <= len(self._text) - 8]
        for k, byte in enumerate(wanted[8:], start=8):
            rows = rows[self._string_bytes[self._names[rows].astype(np.int64) + k] == byte]
        defined_rows: npt.NDArray[np.int64] = rows[self.table["shndx"][rows] != SHN_UNDEF]
        return defined_rows

    @cached_property
    def _heads(self) -> U64:
        """The first eight bytes of every symbol's name as one number, so that a name is found with one comparison.

        A search of the string table takes a pass for each name, and we ask for dozens.
        """
        heads: U64 = unaligned(self._text, 8)[self._names.astype(np.int64)].astype(np.uint64)
        return heads

    @cached_property
    def _mixed(self) -> npt.NDArray[np.uint8]:
        return _mix(self._heads)

    def values_with_prefix(self, prefix: str) -> U64:
        """Return the sorted addresses of all defined symbols whose name begins with ``prefix``."""
        return np.sort(self._values[self._rows_with_prefix(prefix)], kind="stable")

    def is_code(self, section: Section) -> Bool:
        """Return which words of a text section are instructions, shape (size // 4,)."""
        code = np.ones(section.size // 4, np.bool_)
        for start, stop in zip(*(ends.tolist() for ends in self._data(section)), strict=True):
            code[start:stop] = False
        return code

    def is_code_at(self, section: Section, vaddrs: U64) -> Bool:
        """Return which addresses, all of them in a text section, are in words that are instructions."""
        starts, stops = self._data(section)
        word = ((vaddrs - np.uint64(section.addr)) >> np.uint64(2)).astype(np.int64)
        last = np.searchsorted(starts, word, side="right") - 1  # stops ascend, too: it is the one that could hold it
        return (last < 0) | (word >= np.append(stops, 0)[last])

    def _data(self, section: Section) -> tuple[I64, I64]:
        """Return the indices of the words where data in a text section begin, and where they end; both ascend.

        They stand between a ``$d`` and the next ``$x`` (Arm ELF ABI, "Mapping symbols"): nothing is data if both are at
        one address, as Clang writes them around data of no size.
        """
        data, insn = self._mapping
        stop = np.uint64(section.addr + section.size)
        starts = data[np.searchsorted(data, np.uint64(section.addr)) : np.searchsorted(data, stop)]
        stops = np.append(insn, stop)[np.searchsorted(insn, starts)]
        from_begin = (starts - np.uint64(section.addr)).astype(np.int64)
        to_end = (np.minimum(stops, stop) - np.uint64(section.addr)).astype(np.int64)
        return from_begin // 4, (to_end + 3) // 4

    @cached_property
    def _mapping(self) -> tuple[U64, U64]:
        """Addresses, ascending, of all ``$d``, and of all ``$x``."""
        return self.values_with_prefix("$d"), self.values_with_prefix("$x")

    @cached_property
    def _string_bytes(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self._text, np.uint8)

    @cached_property
    def _places(self) -> tuple[U64, npt.NDArray[np.int64]]:
        """Symbols that name places: addresses, ascending, and rows; at one address the last is the best to print."""
        kind, section = self.table["info"] & 15, self.table["shndx"]
        # $x and $d are mapping symbols (Arm ELF ABI, "Mapping symbols"), and .L begins an assembler's own labels: the
        # kernel passes over both (include/linux/module_symbol.h, is_mapping_symbol, 6.12).
        head, after = self._string_bytes[self._names], self._string_bytes[self._names.astype(np.int64) + 1]
        named = (self._names != 0) & (head != ord("$")) & ~((head == ord(".")) & (after == ord("L")))
        named &= (kind <= STT_FUNC) | (kind == STT_GNU_IFUNC)  # a library's: its code is what chooses the function
        rows = np.flatnonzero(named & (section != SHN_UNDEF) & (section != SHN_ABS))
        rank = (kind[rows] >= STT_FUNC) * 2 + (self.table["info"][rows] >> 4 != 0)
        order = rows[np.lexsort((rank, self._values[rows]))]
        return self._values[order], order

    @cached_property
    def place_starts(self) -> U64:
        """Addresses that ``locate`` names things by, ascending, each once."""
        return sorted_unique(self._places[0])

    @cached_property
    def place_sizes(self) -> U64:
        """Sizes in bytes of what begins at each of ``place_starts``, the largest if there are several; 0: not said."""
        values, rows = self._places
        sizes = self.table["size"][rows].astype(np.uint64)
        largest: U64 = np.maximum.reduceat(sizes, np.searchsorted(values, self.place_starts)) if len(rows) else sizes
        return largest

    @property
    def place_bounds(self) -> tuple[U64, U64]:
        """Addresses where what names an address changes, ascending, and the place that names what follows each.

        A kernel's symbol goes on up to the next one, as in kallsyms: assembly has no sizes.
        """
        return self.place_starts, self.place_starts

    def locate(self, vaddr: int) -> Location:
        """Describe an address as symbol+offset and section+offset; a module's made-up address is left out."""
        return self.locate_all([vaddr])[0]

    def locate_all(self, vaddrs: Sequence[int]) -> list[Location]:
        """Describe many addresses: one search for all of them."""
        values, order = self._places
        # One past the last symbol at or below each address, and the first of those at its place.
        stops = np.searchsorted(values, np.array(vaddrs, np.uint64), side="right")
        starts = np.searchsorted(values, values[np.maximum(stops, 1) - 1]) if len(values) else stops
        section, shows = None, not self._image.relocatable
        locations = []
        for vaddr, start, stop in zip(vaddrs, starts.tolist(), stops.tolist(), strict=True):
            shown = vaddr if shows else None
            if section is None or vaddr not in section:  # neighbours mostly come together
                section = self._image.section_at(vaddr)
            if section is None:
                locations.append(Location(vaddr=shown))
                continue
            inside, at = vaddr - section.addr, int(values[stop - 1]) if stop else -1
            if at < section.addr:
                locations.append(Location(vaddr=shown, section=section.name, section_offset=inside))
            else:
                name = self._best_name(order[start:stop])
                locations.append(
                    Location(
                        vaddr=shown, section=section.name, section_offset=inside, symbol=name, symbol_offset=vaddr - at
                    )
                )
        return locations

    def _best_name(self, rows: npt.NDArray[np.int64]) -> str:
        """Name one address by what begins there, not by what ends there; rows come worst first."""
        best = self._name(int(self._names[rows[-1]]))
        for row in rows[::-1].tolist():
            name = self._name(int(self._names[row]))
            if self.table["info"][row] & 15 != STT_NOTYPE or not _END.search(name):
                return name
        return best


def _mix(heads: U64) -> npt.NDArray[np.uint8]:
    """Mix each eight bytes into one: a pass over bytes takes an eighth of one over numbers."""
    return (heads * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(56)).astype(np.uint8)


def _section_indices(image: ElfImage, section: Section, table: npt.NDArray[np.void]) -> U32:
    """Return the index of each symbol's section; reserved numbers, as that of absolute ones, are beyond all.

    An index that does not fit into 16 bits is in a table of its own (System V gABI, "Section Header Table").
    """
    narrow = table["shndx"]
    indices = np.where(narrow < SHN_LORESERVE, narrow, np.uint32(0xFFFF0000) | narrow).astype(np.uint32)
    extended = np.flatnonzero(narrow == SHN_XINDEX)
    if len(extended):
        wide = next((s for s in image.sections if s.type == "SHT_SYMTAB_SHNDX" and s.link == section.index), None)
        if wide is None or wide.size // 4 < len(table):
            raise InputError("symbols of sections whose numbers the file does not have: damaged", path=image.path)
        indices[extended] = image.view(wide, "<u4")[extended]
    return indices


def _addresses(image: ElfImage, table: npt.NDArray[np.void], index: U32) -> U64:
    """Return each symbol's value; in a module, where values are offsets, with its section's address added."""
    values = np.ascontiguousarray(table["value"])
    if not image.relocatable:
        return values
    starts = np.array([s.addr for s in image.sections], np.uint64)
    inside = index < len(starts)
    return values + np.where(inside, starts[np.where(inside, index, 0)], np.uint64(0))
