"""The debug information of one file, unit by unit: pyelftools parses only the entries that are asked for.

pyelftools copies whole sections and keeps every entry that it parsed, 0.9 GB for 200 functions of a kernel. Here it
reads them piece by piece, and finds an entry by ``top_entries``: see
docs/decisions/0031-debug-information-unit-by-unit.md.
"""

from __future__ import annotations

import gc
import io
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.dwarf.dwarf_entries import code_of, ends_path, text_of
from prologue.dwarf.packed_debug import debug_info_section, unpack_debug
from prologue.dwarf.struct_types import DrgnTypes
from prologue.dwarf.top_entries import AbbrevTable, TopEntries
from prologue.elf.image import ElfImage, unaligned
from prologue.elf.symbols import SYM

_CHUNK: Final = 1 << 20  # bytes that stay in a CPU's cache
_MOST_UNITS: Final = 32
_OFFSET_SIZE: Final = 4  # of a string, in DWARF of 32 bits
_HEAD: Final = 256  # bytes that hold a unit's header and its own entry
_TOP: Final = (1 << 64) - 1
_ARANGES: Final = struct.Struct("<IHIBB")
_SECTIONS: Final = {
    "debug_info_sec": ".debug_info", "debug_aranges_sec": ".debug_aranges", "debug_abbrev_sec": ".debug_abbrev",
    "debug_frame_sec": ".debug_frame", "eh_frame_sec": ".eh_frame", "debug_str_sec": ".debug_str",
    "debug_loc_sec": ".debug_loc", "debug_ranges_sec": ".debug_ranges", "debug_line_sec": ".debug_line",
    "debug_pubtypes_sec": "", "debug_pubnames_sec": "", "debug_addr_sec": ".debug_addr",
    "debug_str_offsets_sec": ".debug_str_offsets", "debug_line_str_sec": ".debug_line_str",
    "debug_loclists_sec": ".debug_loclists", "debug_rnglists_sec": ".debug_rnglists", "debug_sup_sec": "",
    "gnu_debugaltlink_sec": "", "debug_types_sec": "",
}  # fmt: skip


class Unit:
    """A compile unit, with its top-level entries."""

    def __init__(self, debug: DebugInfo, offset: int) -> None:
        self.debug = debug
        self.cu = debug.dwarf.get_CU_at(offset)
        debug.read_abbrevs(self.cu["debug_abbrev_offset"])
        self.offset = offset
        self.top = self.cu.get_top_DIE()
        self.name = text_of(self.top, "DW_AT_name")
        self.directory = text_of(self.top, "DW_AT_comp_dir")

    @cached_property
    def entries(self) -> TopEntries:
        """Top-level entries of the unit."""
        return TopEntries(self.cu, self.debug.info_bytes(self.offset, self.cu.size))

    @cached_property
    def row_starts(self) -> list[int]:
        """First address of each row of the unit's line table, ascending."""
        return sorted({address for address, _ in self.line_rows()})

    @cached_property
    def before_short_names(self) -> frozenset[int] | None:
        """Bytes before the names that functions' entries hold, the ends of their codes; None if not of GCC.

        GCC refers to names of four letters and more, and others refer to all.
        """
        if not text_of(self.top, "DW_AT_producer").startswith("GNU C"):
            return None
        names = {
            code: next((spec for spec in abbrev.attributes if spec.form != "DW_FORM_flag_present"), None)
            for code, abbrev in self.cu.get_abbrev_table().by_code.items()
            if abbrev.tag == "DW_TAG_subprogram"
        }
        return frozenset(
            code >> 7 * (max(code.bit_length() - 1, 0) // 7)
            for code, spec in names.items()
            if spec is not None and spec[:2] == ("DW_AT_name", "DW_FORM_string")
        )

    def line_rows(self) -> Iterator[tuple[int, Any]]:
        """Yield address and state of each row of the unit's line table.

        Clang's assembler goes back to another section by an advance modulo 2^64, which pyelftools adds as it is.
        """
        program = self.debug.dwarf.line_program_for_CU(self.cu)
        states = (entry.state for entry in program.get_entries()) if program is not None else ()
        yield from ((state.address & _TOP, state) for state in states if state is not None)

    def entry(self, offset: int) -> Any:
        """Parse the entry at an offset from the start of the unit."""
        return self.cu.get_DIE_from_refaddr(self.offset + offset)

    def function_at(self, vaddr: int) -> Any:
        """Find the entry of the function whose code has that address; None if there is none."""
        entries = self.entries
        index = bisect_right(entries.low_pcs, (vaddr, 1 << 62)) - 1
        candidates = [entries.low_pcs[index][1]] if index >= 0 else []
        for offset in (*candidates, *entries.with_ranges):
            entry = self.entry(offset)
            if any(low <= vaddr < high for low, high in code_of(self.debug.dwarf, entry)):
                return entry
        return None

    def functions(self) -> Iterator[Any]:
        """Yield the entries of functions that have code in one piece, by address."""
        return (self.entry(offset) for _, offset in self.entries.low_pcs)

    def named(self, name: str, *tags: str) -> Iterator[Any]:
        """Yield all top-level entries of that name with one of these tags, in order."""
        entries, wanted = self.entries, set(self.entries.tagged(*tags))
        # An index of a string may be any number: then all names are read.
        if "DW_AT_str_offsets_base" not in self.top.attributes:
            mentions = (at for needle in self.debug.references_to(name) for at in _all(entries.data, needle))
            wanted &= {entries.containing(at) for at in mentions}
        for offset in sorted(wanted):
            entry = self.entry(offset)
            if text_of(entry, "DW_AT_name") == name:
                yield entry

    def inlined(self, abstract: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the inlined entries of a function of this unit, each after the entry of the function that has it."""
        entries = self.entries
        mentions = _all(entries.data, (abstract.offset - self.offset).to_bytes(4, "little"))
        mentioning = {entries.containing(at) for at in mentions}
        for offset in sorted(mentioning.intersection(entries.tagged("DW_TAG_subprogram"))):
            for start, end in entries.inside(offset, "DW_TAG_inlined_subroutine"):
                index = bisect_left(mentions, start)
                if index < len(mentions) and mentions[index] < end:
                    entry = self.entry(start)
                    if entry.get_DIE_from_attribute("DW_AT_abstract_origin").offset == abstract.offset:
                        yield self.entry(offset), entry


class DebugInfo:
    """The debug information of a file that has some: see ``open_debug``.

    Errors of damaged information are pyelftools' own: ``readable_dwarf`` turns them into an InputError.
    """

    def __init__(self, image: ElfImage, *, relocates: bool = True) -> None:
        self._unpacked = unpack_debug(image)  # a file that is gone when it is closed
        if self._unpacked is not None:
            image = ElfImage(Path(f"/proc/self/fd/{self._unpacked.fileno()}"))
        self.image = image
        self.dwarf = _open(image, relocates and image.relocatable)
        self._units: dict[int, Unit] = {}
        self._strings: dict[str, tuple[bytes, ...]] = {}
        self.whole_file = DrgnTypes(image.path)

    def info_bytes(self, offset: int, size: int) -> bytes:
        """Copy ``size`` bytes of ``.debug_info``, from ``offset`` on."""
        stream = self.dwarf.debug_info_sec.stream
        stream.seek(offset)
        return bytes(stream.read(size))

    def read_abbrevs(self, offset: int) -> None:
        """Give pyelftools the table of abbreviations at that offset, so that it does not parse it."""
        if offset not in self.dwarf._abbrevtable_cache:
            self.dwarf._abbrevtable_cache[offset] = AbbrevTable(self._abbrev_data, offset)

    @cached_property
    def _abbrev_data(self) -> bytes:
        return _whole(self.dwarf.debug_abbrev_sec)

    def unit(self, offset: int) -> Unit:
        """Return the unit at an offset in ``.debug_info``."""
        if offset not in self._units:
            self._units[offset] = Unit(self, offset)
        return self._units[offset]

    def trim(self) -> None:
        """Drop the parsed units if they are many: pyelftools keeps every entry, megabytes for each unit."""
        if len(self._units) > _MOST_UNITS:
            self._units.clear()
            dwarf = self.dwarf
            for kept in (dwarf._cu_cache, dwarf._cu_offsets_map, dwarf._abbrevtable_cache, dwarf._linetable_cache):
                kept.clear()
            gc.collect()  # entries and units refer to each other

    def unit_at(self, vaddr: int) -> Unit | None:
        """Find the unit whose code has that address; None if there is none."""
        row = bisect_right(self.spans, (vaddr, 1 << 64, 1 << 64)) - 1
        if row < 0 or vaddr >= self.spans[row][1]:
            return None
        return self.unit(self.spans[row][2])

    @cached_property
    def spans(self) -> list[tuple[int, int, int]]:
        """Start, end and unit of each run of code, ascending: GCC makes a table of all, Clang of those in assembly."""
        listed = list(_address_ranges(_whole(self.dwarf.debug_aranges_sec)))
        units = {unit for _, _, unit in listed}
        others = (offset for offset in self.unit_offsets if offset not in units)
        runs = ((*run, offset) for offset in others for run in code_of(self.dwarf, self.unit(offset).top))
        # Code that a linker dropped begins at 0, or at -1 and goes on from there (LLD).
        return sorted(run for run in (*listed, *runs) if 0 < run[0] < run[1] < 1 << 64)

    @cached_property
    def unit_offsets(self) -> list[int]:
        """Offset of each unit in ``.debug_info``, ascending."""
        section, offsets, at = self.dwarf.debug_info_sec, [], 0
        while at + 4 <= section.size:
            offsets.append(at)
            at += 4 + int.from_bytes(self.info_bytes(at, 4), "little")
        return offsets

    def units_of_file(self, name: str) -> list[Unit]:
        """Return the units whose source is that file: a path, or the last parts of one."""
        result = []
        needles = {*self._paths_ending(name), name.encode()}
        indexed = self.dwarf.debug_str_offsets_sec is not None
        for offset in self.unit_offsets:
            head = self.info_bytes(offset, _HEAD)
            if (indexed or any(needle in head for needle in needles)) and ends_path(self.unit(offset).name, name):
                result.append(self.unit(offset))
        return result

    def _paths_ending(self, name: str) -> Iterator[bytes]:
        """Yield references to paths that end so, as the entry of a unit may have them: offsets of strings."""
        raw = name.encode() + b"\0"
        for data in (self._string_data, self._line_string_data):
            for end in _all(data, raw):
                start = data.rfind(b"\0", 0, end) + 1
                # A linker lets one path be the end of another.
                begins = [start, *(start + at + 1 for at, byte in enumerate(data[start:end]) if byte == ord("/"))]
                yield from (begin.to_bytes(4, "little") for begin in begins)

    def function_at(self, vaddr: int) -> tuple[Unit, Any] | None:
        """Find the function whose code has that address, and its unit; None if there is none."""
        unit = self.unit_at(vaddr)
        entry = unit.function_at(vaddr) if unit is not None else None
        return (unit, entry) if unit is not None and entry is not None else None

    def units_naming(self, name: str) -> list[Unit]:
        """Return the units that may have a function of that name, in order: their bytes have it, or a reference to it.

        Of a short name there are many, of local variables and at the ends of other names.
        """
        section = self.dwarf.debug_info_sec
        raw, *needles = self.references_to(name)
        wanted = [int.from_bytes(needle, "little") for needle in needles]
        is_short = len(raw) <= _OFFSET_SIZE  # then GCC keeps the name in the entry
        result: set[int] = set()
        for start in range(0, section.size, _CHUNK) if wanted or is_short else ():
            chunk = self.info_bytes(start, min(_CHUNK + _OFFSET_SIZE - 1, section.size - start))
            words = unaligned(chunk, _OFFSET_SIZE)
            hits = words == np.uint32(wanted[0]) if len(wanted) == 1 else np.isin(words, np.array(wanted, np.uint32))
            referring = {self._unit_with(start + at) for at in np.flatnonzero(hits).tolist()}
            if is_short:
                referring = {unit for unit in referring if self.unit(unit).before_short_names is None}
                referring |= {
                    self._unit_with(start + at) for at in _all(chunk, raw) if self._may_name(chunk, start, at)
                }
            result |= referring
        result |= self._units_with_index_of(wanted)
        return [self.unit(offset) for offset in sorted(result)]

    def _unit_with(self, at: int) -> int:
        return self.unit_offsets[bisect_right(self.unit_offsets, at) - 1]

    def _may_name(self, chunk: bytes, start: int, at: int) -> bool:
        """Return whether a short name there, in a chunk of ``.debug_info``, may be that of a function."""
        before = self.unit(self._unit_with(start + at)).before_short_names
        return before is None or not at or chunk[at - 1] in before

    def _units_with_index_of(self, places: list[int]) -> set[int]:
        """Return the units with one of these offsets in their table of strings, as Clang makes it (DWARF 5, 7.26)."""
        if not self._string_tables:
            return set()
        data = _whole(self.dwarf.debug_str_offsets_sec)
        words: npt.NDArray[np.uint32] = np.frombuffer(data[: len(data) & ~3], "<u4")
        hits = 4 * np.flatnonzero(np.isin(words, np.array(places, np.uint32)))
        rows = (bisect_right(self._string_tables, (at, 1 << 62)) - 1 for at in hits.tolist())
        return {self._string_tables[row][1] for row in rows if row >= 0}

    @cached_property
    def _string_tables(self) -> list[tuple[int, int]]:
        """Start of each table in ``.debug_str_offsets``, ascending, and the unit that it is of."""
        if self.dwarf.debug_str_offsets_sec is None:
            return []
        bases = (
            (self.unit(offset).top.attributes.get("DW_AT_str_offsets_base"), offset) for offset in self.unit_offsets
        )
        return sorted((base.value, offset) for base, offset in bases if base is not None)

    def references_to(self, name: str) -> tuple[bytes, ...]:
        """Return the bytes by which an entry may hold this name: itself, or its offset in ``.debug_str``.

        Linkers keep a string once: by itself, or, if longer ones end with it, as the end of one of them.
        """
        if name not in self._strings:
            raw = name.encode() + b"\0"
            places = _all(self._string_data, b"\0" + raw, 1) or _all(self._string_data, raw)
            self._strings[name] = (raw, *(place.to_bytes(4, "little") for place in places))
        return self._strings[name]

    @cached_property
    def _string_data(self) -> bytes:
        return _whole(self.dwarf.debug_str_sec)

    @cached_property
    def _line_string_data(self) -> bytes:
        return _whole(self.dwarf.debug_line_str_sec)


def open_debug(image: ElfImage, *, relocates: bool = True) -> DebugInfo | None:
    """Open the debug information of a file; None if it has none.

    ``relocates``: that of a module gets the addresses that its sections have; it need not be carried out if it was.
    """
    return DebugInfo(image, relocates=relocates) if debug_info_section(image) is not None else None


def _whole(section: Any) -> bytes:
    if section is None:
        return b""
    section.stream.seek(0)
    return bytes(section.stream.read(section.size))


def _address_ranges(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and unit of each run of code in ``.debug_aranges`` (DWARF 5, 6.1.2; of 32 bits)."""
    at = 0
    while at + _ARANGES.size <= len(data):
        length, _, unit, _, _ = _ARANGES.unpack_from(data, at)
        pairs: npt.NDArray[np.uint64] = np.frombuffer(data[at + 16 : at + 4 + length], "<u8")
        for low, size in pairs[: len(pairs) & ~1].reshape(-1, 2).tolist():
            if low and size:
                yield low, low + size, unit
        at += 4 + length


def _all(data: bytes, needle: bytes, skip: int = 0) -> list[int]:
    """Return every place of the needle, ``skip`` bytes further on."""
    places, at = [], data.find(needle)
    while at >= 0:
        places.append(at + skip)
        at = data.find(needle, at + 1)
    return places


class _Window:
    """A section as a stream; ``read`` is the file's own. A mapping of the file would count as memory."""

    def __init__(self, path: Path, base: int) -> None:
        self._file = path.open("rb")
        self._base = base
        self.read = self._file.read

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to an offset in the section."""
        return self._file.seek(offset + self._base if whence == 0 else offset, whence) - self._base

    def tell(self) -> int:
        """Return the offset in the section."""
        return self._file.tell() - self._base


def _open(image: ElfImage, relocates: bool) -> Any:
    from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo
    from elftools.elf.elffile import ELFFile

    if relocates or not image.is_whole_file:
        elf = ELFFile(io.BytesIO(bytes(_with_addresses(image) if relocates else image.content)))
        return elf.get_dwarf_info(relocate_dwarf_sections=relocates, follow_links=False)

    def descriptor(name: str) -> Any:
        section = image.section(name) if name else None
        if section is None or not section.has_bytes:
            return None
        stream: Any = _Window(image.path, section.offset)
        return DebugSectionDescriptor(stream, name, section.offset, section.size, section.addr)

    config = DwarfConfig(little_endian=True, default_address_size=8, machine_arch="AArch64")
    return DWARFInfo(config, **{keyword: descriptor(name) for keyword, name in _SECTIONS.items()})


def _with_addresses(image: ElfImage) -> bytearray:
    """Give a module's symbols the addresses that its sections were given: its DWARF has them, too, once relocated."""
    content = bytearray(image.content)
    for table in image.sections:
        if table.type != "SHT_SYMTAB":
            continue
        symbols: npt.NDArray[np.void] = np.frombuffer(content, SYM, table.size // SYM.itemsize, table.offset)
        starts = np.array([s.addr for s in image.sections], np.uint64)
        inside = (symbols["shndx"] != 0) & (symbols["shndx"] < len(starts))
        symbols["value"][inside] += starts[symbols["shndx"][inside]]
    return content
