"""Places a module as its loader does: every section gets its address, and every relocation is carried out.

The loader is ``kernel/module/main.c`` and ``arch/arm64/kernel/module.c`` (6.1-7.2); relocations are those of AAELF64,
"Relocation codes". Symbols of others come by name. Data of each CPU are where ``struct module.percpu`` says
(``simplify_symbols``). Sections without a byte (``.bss`` with a lock_class_key, which is empty without lockdep) have an
address, too, but sysfs leaves them out: it is where the loader's layout has them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.elf.dynrelocs import RELA
from prologue.elf.image import SHF_COMPRESSED, ElfImage
from prologue.elf.sections import SHDR, SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE, Section
from prologue.elf.symbols import SHN_LORESERVE, SHN_UNDEF, SYM, Symbols
from prologue.errors import InputError
from prologue.insn import a64
from prologue.live.memory.ranges import PAGE
from prologue.live.memory.state import FREED, LoadedModule

_E_TYPE, _E_SHOFF = 16, 40  # in Elf64_Ehdr (System V gABI, "ELF Header")
_READ_ONLY_AFTER_INIT: Final = (".data..ro_after_init", "__jump_table")  # memory of their own (kernel/module/main.c)
PERCPU: Final = ".data..percpu"
_ET_EXEC, _SHT_PROGBITS = 2, 1
_SHN_ABS: Final = 0xFFF1
# type -> width in bytes, relative to the place
_DATA: Final = {257: (8, False), 258: (4, False), 259: (2, False), 260: (8, True), 261: (4, True), 262: (2, True)}
# type -> lowest bit and width of the immediate, how many bits of the distance are left out
_BRANCHES: Final = {279: (5, 14, 2), 280: (5, 19, 2), 282: (0, 26, 2), 283: (0, 26, 2), 273: (5, 19, 2)}
_LOW12: Final = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}  # type -> bits left out
_ADR, _ADRP = 274, (275, 276)
_CALLS: Final = (282, 283)
LATE: Final = PAGE - 8  # in its page, an ADRP that the loader changes for erratum 843419 (reloc_insn_adrp)


def _bits(place: int, kind: int) -> dict[int, int]:
    """Return the words that a relocation of that type fills in, and which bits of each."""
    if kind in _BRANCHES:
        low, width, _ = _BRANCHES[kind]
        return {place: (1 << width) - 1 << low}
    if kind in _LOW12:
        return {place: 0xFFF << 10}
    if kind in _ADRP and place % PAGE >= LATE:
        return {place: 0xFFFFFFFF}
    if kind == _ADR or kind in _ADRP:
        return {place: 3 << 29 | 0x7FFFF << 5}
    width = _DATA.get(kind, (4, False))[0]
    return dict.fromkeys(range(place & ~3, place + width, 4), 4294967295)


def _kind_of_memory(section: Section) -> tuple[int, bool]:
    """Return a section's kind: those of one kind follow each other in memory, in file order."""
    return section.flags & (SHF_WRITE | SHF_EXECINSTR), section.name.startswith(FREED)


def _holds_plt(section: Section) -> bool:
    """Return whether the loader makes PLT entries in the section: the file has one byte of it."""
    return section.executable and section.size < 4


def undefined_names(images: Iterable[ElfImage]) -> set[str]:
    """Return the names that modules want from others."""
    names: set[str] = set()
    for image in images:
        symbols = Symbols(image)
        rows = np.flatnonzero(symbols.table["shndx"] == SHN_UNDEF)
        names.update(symbols.name_of(row) for row in rows.tolist())
    return names - {""}


class PlacedModule:
    """The file of the module ``loaded`` at run-time addresses, which ``image`` is.

    ``unknown`` are words of text whose relocation refers to what has no known place, each with the bits that it fills
    in; of these, ``laid_out`` have in the image what they hold if an empty section is where the loader's layout has it.
    ``relocated`` are the addresses of all words of text that a relocation fills in, shape (n,); ``unresolved`` those of
    fields of data that refer to what has no known place: the image has there what the file has. ``far`` are calls that
    a PLT entry has to extend: their places and targets. ``calls`` are the targets of all. ``late_adrps`` are where
    Cortex-A53 may get an ADRP wrong: register and page of each, None if the page is not known. ``plts`` are sections of
    PLT entries, by the address where they begin. ``unplaced`` are sections of text, by number, that stay after init,
    and of which memory does not say where they are.
    """

    def __init__(
        self,
        loaded: LoadedModule,
        file: ElfImage,
        others: Mapping[str, int],
        *,
        for_debuggers: bool = False,
    ) -> None:
        """Place sections and symbols, and carry out relocations.

        For debuggers those of DWARF, too, and none of text: they want the text that memory has.

        Args:
            loaded: the module.
            file: its file without a signature.
            others: symbols of the kernel and other modules.
            for_debuggers: as above.

        Raises:
            InputError: the file is damaged, or memory does not say where its text is.

        """
        self.loaded, self._file = loaded, file
        self._content = bytearray(file.content)
        self._symbols = Symbols(file)
        names = [section.name for section in file.sections if section.allocated]
        places = loaded.sections
        self._placed = {
            s.index: places[s.name]
            for s in file.sections
            if s.allocated and s.size and s.name in places and names.count(s.name) == 1 and s.name != PERCPU
        }
        if not any(section.index in self._placed for section in file.text_sections):
            raise InputError(f"memory does not say where the sections of {loaded.name} are", path=file.path)
        self._empty = self._empty_sections()
        percpu = 0 if for_debuggers else places.get(PERCPU, 0)
        self._values, self._known = self._symbol_values(others, percpu)
        self.unknown: dict[int, int] = {}
        self.laid_out: set[int] = set()
        self.relocated: U64 = np.zeros(0, np.uint64)
        self.unresolved: U64 = np.zeros(0, np.uint64)
        self.far: dict[int, int] = {}
        self.calls: set[int] = set()
        self.late_adrps: dict[int, tuple[int, int | None]] = {}
        self._relocate_all(for_debuggers=for_debuggers)
        self._place_headers()
        section = next(s for s in file.sections if s.type == "SHT_SYMTAB")
        np.frombuffer(self._content, SYM, len(self._symbols.table), section.offset)["value"] = self._values
        self.image = ElfImage(file.path, bytes(self._content))
        # PLTs of init text are free again with it, and may be another module's text by now.
        self.plts = {
            self._placed[s.index]: s
            for s in file.sections
            if s.index in self._placed and _holds_plt(s) and not s.name.startswith(FREED)
        }
        self.unplaced = tuple(
            s.index
            for s in file.text_sections
            if s.index not in self._placed and s.size and not _holds_plt(s) and not s.name.startswith(FREED)
        )

    def _relocate_all(self, *, for_debuggers: bool) -> None:
        for table in self._file.sections:
            if table.type != "SHT_RELA" or not table.has_bytes or table.info >= len(self._file.sections):
                continue
            target = self._file.sections[table.info]
            if target.index in self._placed:
                self._relocate(target, table, self._known, skip=for_debuggers and target.executable)
            elif for_debuggers and target.has_bytes and not target.flags & (SHF_EXECINSTR | SHF_COMPRESSED):
                self._relocate(target, table, self._symbols.defined, skip=False)

    def _empty_sections(self) -> dict[int, int]:
        """Place sections without a byte as the loader does: after the one before of the same kind of memory.

        ``layout_section`` (kernel/module.c, 5.10; ``__layout_sections``, kernel/module/main.c, 6.12). The first of its
        kind is at the beginning of that memory, as is the next one then.
        """
        places: dict[int, int] = {}
        sections = [s for s in self._file.sections if s.allocated and s.name not in _READ_ONLY_AFTER_INIT]
        for at, section in enumerate(sections):
            if section.size or not section.flags & SHF_WRITE:
                continue
            kind = _kind_of_memory(section)
            before, after = (
                next((s for s in part if s.index in self._placed and _kind_of_memory(s) == kind), None)
                for part in (sections[:at][::-1], sections[at + 1 :])
            )
            if before is not None:
                headers = struct.unpack_from("<Q", self._content, _E_SHOFF)[0]
                align = max(int(SHDR.unpack_from(self._content, headers + section.index * SHDR.size)[8]), 1)
                places[section.index] = -(-(self._placed[before.index] + before.size) // align) * align
            elif after is not None:
                places[section.index] = self._placed[after.index]
        return places

    def _symbol_values(self, others: Mapping[str, int], percpu: int) -> tuple[U64, Bool]:
        """Return the run-time value of each symbol, in table order, and whether it is known."""
        table = self._symbols.table
        starts = np.zeros(len(self._file.sections), np.uint64)
        is_placed = np.zeros(len(starts), np.bool_)
        for number, vaddr in self._empty.items():
            starts[number] = vaddr  # a value, although not known
        of_cpus = {s.index: percpu for s in self._file.sections if s.name == PERCPU and percpu}
        for number, vaddr in (self._placed | of_cpus).items():
            starts[number], is_placed[number] = vaddr, True
        index = table["shndx"]
        inside = (index != SHN_UNDEF) & (index < min(len(starts), SHN_LORESERVE))
        safe = np.where(inside, index, 0)
        values: U64 = np.ascontiguousarray(table["value"]) + np.where(inside, starts[safe], np.uint64(0))
        known: Bool = np.where(inside, is_placed[safe], index == _SHN_ABS)
        for row in np.flatnonzero(index == SHN_UNDEF).tolist():
            place = others.get(self._symbols.name_of(row))
            if place is not None:
                values[row], known[row] = place, True
        return values, known

    def _relocate(self, target: Section, section: Section, known_symbols: Bool, *, skip: bool) -> None:
        """Carry out the relocations of ``target`` to symbols with a known value, and note the others of text."""
        table = self._file.view(section, RELA)
        types = (table["info"] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        rows = (table["info"] >> np.uint64(32)).astype(np.int64)
        if len(table) and (int(rows.max()) >= len(self._values) or int(table["offset"].max()) >= target.size):
            raise InputError(f"a relocation of {target.name} has no symbol or no place: damaged", path=self._file.path)
        places = np.uint64(self._placed.get(target.index, 0)) + table["offset"]
        values = self._values[rows] + table["addend"].astype(np.uint64)
        known = known_symbols[rows]
        laid_out: Bool = ~known & np.isin(self._symbols.table["shndx"][rows], list(self._empty))
        if target.executable:
            self.relocated = np.concatenate([self.relocated, places & ~np.uint64(3)])
            if skip:
                return
            for k in np.flatnonzero(~known).tolist():
                bits = _bits(int(places[k]), int(types[k]))
                self.unknown |= bits
                self.laid_out.update(bits if laid_out[k] else ())
            late = np.flatnonzero(np.isin(types, _ADRP) & (places % np.uint64(PAGE) >= np.uint64(LATE)))
            at = table["offset"][late].astype(np.int64) + target.offset
            self._note_late_adrps(at, places[late], values[late], (known | laid_out)[late])
        else:
            self.unresolved = np.concatenate([self.unresolved, places[~(known | laid_out)]])
        for kind in set(types.tolist()):
            chosen = np.flatnonzero((types == kind) & (known | laid_out))
            at = (table["offset"][chosen]).astype(np.int64) + target.offset
            self._fill(kind, at, places[chosen], values[chosen])

    def _fill(self, kind: int, at: I64, places: U64, values: U64) -> None:
        distance = (values - places).view(np.int64)
        if kind in _DATA:
            width, relative = _DATA[kind]
            self._write(at, distance.view(np.uint64) if relative else values, width)
        elif kind in _BRANCHES:
            low, width, shift = _BRANCHES[kind]
            if kind in _CALLS:
                self.calls.update(values.tolist())
                far = np.flatnonzero((distance < -a64.BL_REACH) | (distance >= a64.BL_REACH))
                self.far |= dict(zip(places[far].tolist(), values[far].tolist(), strict=True))
            self._insert(at, distance >> shift, low, width)
        elif kind in _LOW12:
            self._insert(at, (values & np.uint64(0xFFF)).astype(np.int64) >> _LOW12[kind], 10, 12)
        elif kind == _ADR:
            self._insert_adr(at, distance)
        elif kind in _ADRP:
            page = ~np.uint64(0xFFF)
            self._insert_adr(at, ((values & page) - (places & page)).view(np.int64) >> 12)
        elif kind:
            for place in places.tolist():
                self.unknown |= _bits(place, kind)

    def _note_late_adrps(self, at: I64, places: U64, values: U64, has_value: Bool) -> None:
        registers = (self._words(at) & np.uint64(31)).tolist()
        pages = (value & -PAGE if known else None for value, known in zip(values.tolist(), has_value, strict=True))
        self.late_adrps |= dict(zip(places.tolist(), zip(registers, pages, strict=True), strict=True))

    def _insert(self, at: I64, values: I64, low: int, width: int) -> None:
        mask = (1 << width) - 1
        words = self._words(at)
        self._write(at, words & np.uint64(~(mask << low) & 0xFFFFFFFF) | ((values & mask) << low).astype(np.uint64), 4)

    def _insert_adr(self, at: I64, values: I64) -> None:
        self._insert(at, values & 3, 29, 2)
        self._insert(at, values >> 2, 5, 19)

    def _words(self, at: I64) -> U64:
        raw = np.frombuffer(self._content, np.uint8)
        four: U64 = raw[at[:, None] + np.arange(4)].astype(np.uint64) << (np.arange(4, dtype=np.uint64) * np.uint64(8))
        words: U64 = four.sum(axis=1, dtype=np.uint64)
        return words

    def _write(self, at: I64, values: U64, width: int) -> None:
        raw = np.frombuffer(self._content, np.uint8)
        if len(at) and int(at.max()) + width > len(raw):
            raise InputError("a relocation lies after the end of the file: damaged", path=self._file.path)
        raw[at[:, None] + np.arange(width)] = values.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]

    def _place_headers(self) -> None:
        start = struct.unpack_from("<Q", self._content, _E_SHOFF)[0]
        for section in self._file.sections:
            at = start + section.index * SHDR.size
            header = list(SHDR.unpack_from(self._content, at))
            if section.index in self._placed and not _holds_plt(section):
                header[3] = self._placed[section.index]
            elif section.allocated:  # .modinfo, __versions
                header[2] &= ~(SHF_ALLOC | SHF_EXECINSTR)
                header[3] = 0
            if section.type == "SHT_RELA":  # nothing is left to relocate: bytes that no tool reads
                header[1], header[2], header[6], header[7], header[9] = _SHT_PROGBITS, 0, 0, 0, 0
            SHDR.pack_into(self._content, at, *header)
        struct.pack_into("<H", self._content, _E_TYPE, _ET_EXEC)
