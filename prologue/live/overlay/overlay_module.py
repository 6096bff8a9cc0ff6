"""A module with the text that runs, linked where it was loaded: an ET_EXEC made of its ``.ko``.

The kernel's loader (``kernel/module/main.c``, 6.1-6.12) is what places sections and relocates them. Here sections get
their run-time addresses and symbols their values. Executable sections hold what memory has. In data and DWARF those
relocations are carried out whose symbols are the module's own, so that line tables are right.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U64
from prologue.elf.dynrelocs import RELA
from prologue.elf.image import SHF_COMPRESSED, ElfImage
from prologue.elf.sections import SHF_ALLOC, SHF_EXECINSTR, Section
from prologue.elf.structs import PHDR, SHDR
from prologue.elf.symbols import SHN_LORESERVE, SHN_UNDEF, SYM, Symbols
from prologue.errors import InputError
from prologue.insn import a64
from prologue.live.memory.base import Memory
from prologue.live.memory.ranges import PAGE, UnmappedError
from prologue.live.memory.state import KernelState, LoadedModule
from prologue.live.overlay.overlay_text import SectionText, section_text
from prologue.live.system.running_text import LiveSection, Placed, nothing_there, read_sections, require_loaded
from prologue.outputs import new_file, require_other

_BUILD_ID: Final = ".note.gnu.build-id"
# The loader frees what it lays out as init (module_init_layout_section, kernel/module/main.c, 6.1-6.12).
INIT: Final = ".init"
_MOST_PLT: Final = 1 << 20  # bytes
# Offsets in Elf64_Ehdr (System V gABI, "ELF Header").
_E_TYPE, _E_PHOFF, _E_SHOFF, _E_PHENTSIZE = 16, 32, 40, 54
_ET_EXEC, _SHT_PROGBITS, _PT_LOAD = 2, 1, 1
# AAELF64, "Relocation codes": type -> (width, relative to the place)
_KINDS: Final = {257: (8, False), 258: (4, False), 260: (8, True), 261: (4, True)}


class OverlaidModule(NamedTuple):
    """A module that was written."""

    name: str
    path: Path
    sections: tuple[SectionText, ...]


def overlay_module(loaded: LoadedModule, image: ElfImage, memory: Memory, out: Path) -> OverlaidModule:
    """Write the module ``loaded`` as it runs; ``image`` is its file, without a signature.

    Raises:
        InputError: the file is not the loaded module's, or memory cannot be read.
        OutputError: ``out`` is an input, or cannot be written.

    """
    require_other(out, image.path, Path(memory.name))
    work = _Work(loaded, image, memory)
    sections = tuple(work.take_text())
    work.place_sections()
    work.relocate()
    work.place_symbols()
    work.add_segments()
    with new_file(out) as temporary:
        temporary.write_bytes(work.content)
    return OverlaidModule(loaded.name, out, sections)


def placed_by_symbols(loaded: LoadedModule, image: ElfImage, state: KernelState) -> LoadedModule:
    """Find where sections are by the names that kallsyms and the file both have, each once.

    For perf's data, which do not have the addresses of sections.
    """
    symbols = Symbols(image)
    seen: dict[str, set[int]] = {}
    for symbol in state.symbols:
        if symbol.owner == loaded.name:
            seen.setdefault(symbol.name, set()).add(symbol.vaddr)
    found: dict[str, set[int]] = {}
    for section in image.text_sections:
        rows = np.flatnonzero(symbols.table["shndx"] == section.index)
        for row in rows.tolist():
            name = symbols.name_of(row)
            if len(seen.get(name, ())) == 1:
                (vaddr,) = seen[name]
                found.setdefault(section.name, set()).add(vaddr - int(symbols.table["value"][row]))
    return loaded._replace(sections={name: places.pop() for name, places in found.items() if len(places) == 1})


class _Work:
    """A module's file while it is being changed."""

    def __init__(self, loaded: LoadedModule, image: ElfImage, memory: Memory) -> None:
        self._loaded = loaded
        self._image = image
        self._memory = memory
        self.content = bytearray(image.content)
        places = loaded.sections
        self._placed = {s.index: places[s.name] for s in image.sections if s.allocated and s.size and s.name in places}
        self._headers = [list(self._header(section.index)) for section in image.sections]
        if not any(section.index in self._placed for section in image.text_sections):
            raise InputError(f"{memory.name} does not say where the sections of {loaded.name} are", path=image.path)

    def _header(self, index: int) -> tuple[int, ...]:
        table = struct.unpack_from("<Q", self.content, _E_SHOFF)[0]
        return SHDR.unpack_from(self.content, table + index * SHDR.size)

    def take_text(self) -> list[SectionText]:
        """Put what runs into executable sections."""
        known = self._has_same_build_id()
        placed = [(s, self._placed[s.index]) for s in self._image.text_sections if s.index in self._placed]
        freed = [pair for pair in placed if pair[0].name.startswith(INIT)]
        # Sections of one byte, to be filled by the loader: PLT entries.
        plts = [pair for pair in placed if pair[0].size < 4 and pair not in freed]
        there = [pair for pair in placed if pair not in freed and pair not in plts]
        found = [section_text(self._image, nothing_there(self._place(*pair)), pair[1]) for pair in freed]
        memories = read_sections(self._memory, [self._place(*pair) for pair in there])
        require_loaded(memories, self._image.path, self._memory)
        for (section, vaddr), live in zip(there, memories, strict=True):
            relocated = self._relocated(section)
            text = section_text(self._image, live, vaddr, relocated)
            if not known and self._is_other(live, relocated):
                raise self._not_this_file()
            self.content[section.offset : section.offset + section.size] = text.data
            found.append(text)
        return found + [self._append_plt(*pair) for pair in plts]

    def _place(self, section: Section, vaddr: int) -> Placed:
        return Placed(section, self._image.view(section, "<u4"), vaddr)

    def _has_same_build_id(self) -> bool:
        section, vaddr = self._image.section(_BUILD_ID), self._loaded.sections.get(_BUILD_ID)
        if section is None or vaddr is None:
            return False
        try:
            live = self._memory.read(vaddr, section.size)
        except UnmappedError:
            return False
        if live != self._image.data(section):
            raise self._not_this_file()
        return True

    def _is_other(self, live: LiveSection, relocated: U64) -> bool:
        """Whether most of those words differ that a loader and a tracer have no business with."""
        linked = self._image.view(live.section, "<u4")
        fixed = (linked != a64.NOP) & live.there & ~live.zeros
        fixed[relocated[relocated < len(fixed)].astype(np.int64)] = False
        return bool(2 * (linked != live.words)[fixed].sum() > fixed.sum())

    def _not_this_file(self) -> InputError:
        return InputError(f"is not the {self._loaded.name} that is loaded: another build", path=self._image.path)

    def _relocated(self, section: Section) -> U64:
        """Indices of the section's words that the loader filled in."""
        words = [table["offset"] // np.uint64(4) for target, table in self._tables() if target.index == section.index]
        return np.concatenate(words) if words else np.zeros(0, np.uint64)

    def _tables(self) -> list[tuple[Section, np.ndarray]]:
        sections = self._image.sections
        return [
            (sections[s.info], self._image.view(s, RELA))
            for s in sections
            if s.type == "SHT_RELA" and s.has_bytes and s.info < len(sections)
        ]

    def _append_plt(self, section: Section, vaddr: int) -> SectionText:
        """Give the section room at the end of the file: as much as it has until the next one, zeros left out."""
        following = [place for place in self._loaded.sections.values() if place > vaddr]
        limit = min([vaddr + _MOST_PLT, *following])
        data = b""
        with suppress(UnmappedError):  # nothing is mapped after the module
            while (place := vaddr + len(data)) < limit:
                data += self._memory.read(place, min(PAGE - place % PAGE, limit - place))
                if not data[place - vaddr :].strip(b"\0"):  # kcore has zeros there, and then other modules
                    break
        if not data:
            return section_text(self._image, nothing_there(self._place(section, vaddr)), vaddr)
        data = data.rstrip(b"\0")
        data += b"\0" * (-len(data) % 4)
        self.content += b"\0" * (-len(self.content) % 8)
        header = self._headers[section.index]
        header[4], header[5] = len(self.content), len(data)
        self.content += data
        words = len(data) // 4
        return SectionText(
            name=section.name, offset=header[4], vaddr=vaddr, words=words, changed=words, kept=0, missing=0, zeros=0,
            unstable=(), data=data,
        )  # fmt: skip

    def place_sections(self) -> None:
        """Give sections their addresses; take from the running image what the loader took from it."""
        for section, header in zip(self._image.sections, self._headers, strict=True):
            if section.index in self._placed:
                header[3] = self._placed[section.index]
            elif section.allocated:  # .modinfo, __versions
                header[2] &= ~(SHF_ALLOC | SHF_EXECINSTR)
                header[3] = 0
            if section.type == "SHT_RELA":  # no relocations any more, but bytes that nothing reads
                header[1], header[2], header[6], header[7], header[9] = _SHT_PROGBITS, 0, 0, 0, 0
        table = struct.unpack_from("<Q", self.content, _E_SHOFF)[0]
        for index, header in enumerate(self._headers):
            SHDR.pack_into(self.content, table + index * SHDR.size, *header)

    def relocate(self) -> None:
        """Carry out, outside of text, the relocations to symbols of the module itself."""
        symbols = Symbols(self._image)
        values = self._values(symbols)
        known = symbols.defined
        raw = np.frombuffer(self.content, np.uint8)
        for target, table in self._tables():
            if target.flags & (SHF_EXECINSTR | SHF_COMPRESSED) or not target.has_bytes:
                continue
            types, rows = table["info"] & np.uint64(0xFFFFFFFF), (table["info"] >> np.uint64(32)).astype(np.int64)
            if len(table) and int(rows.max()) >= len(values):
                raise InputError(f"a relocation of {target.name} has no symbol: damaged", path=self._image.path)
            for kind, (width, relative) in _KINDS.items():
                chosen = np.flatnonzero((types == kind) & known[rows])
                places: U64 = table["offset"][chosen].astype(np.uint64)
                if len(places) and int(places.max()) + width > target.size:
                    message = f"a relocation lies after the end of {target.name}: damaged"
                    raise InputError(message, path=self._image.path)
                words = values[rows[chosen]] + table["addend"][chosen].astype(np.uint64)
                here = places + np.uint64(self._placed.get(target.index, 0) if relative else 0)
                self._fill(raw, places.astype(np.int64) + target.offset, words - here if relative else words, width)

    @staticmethod
    def _fill(raw: np.ndarray, offsets: I64, words: U64, width: int) -> None:
        bytes_ = words.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
        raw[offsets[:, None] + np.arange(width)] = bytes_

    def _values(self, symbols: Symbols) -> U64:
        """Run-time value of each symbol, in table order; of those in sections without address what the file says."""
        starts = np.array([self._placed.get(s.index, 0) for s in self._image.sections], np.uint64)
        index = symbols.table["shndx"]
        inside = (index != SHN_UNDEF) & (index < min(len(starts), SHN_LORESERVE))
        values: U64 = np.ascontiguousarray(symbols.table["value"])
        return values + np.where(inside, starts[np.where(inside, index, 0)], np.uint64(0))

    def place_symbols(self) -> None:
        """Give symbols their run-time values."""
        symbols = Symbols(self._image)
        section = next(s for s in self._image.sections if s.type == "SHT_SYMTAB")
        table = np.frombuffer(self.content, SYM, len(symbols.table), section.offset)
        table["value"] = self._values(symbols)

    def add_segments(self) -> None:
        """Add a PT_LOAD for each section in memory, for readers that go by segments, and make it an ET_EXEC."""
        self.content += b"\0" * (-len(self.content) % 8)
        start = len(self.content)
        count = 0
        for section in self._image.sections:
            if section.index in self._placed and section.has_bytes:
                _, _, flags, vaddr, offset, size, *_ = self._headers[section.index]
                access = 4 | (flags & 1) << 1 | (flags & SHF_EXECINSTR) >> 2
                self.content += PHDR.pack(_PT_LOAD, access, offset, vaddr, vaddr, size, size, 1)
                count += 1
        struct.pack_into("<H", self.content, _E_TYPE, _ET_EXEC)
        struct.pack_into("<Q", self.content, _E_PHOFF, start)
        struct.pack_into("<HH", self.content, _E_PHENTSIZE, PHDR.size, count)
