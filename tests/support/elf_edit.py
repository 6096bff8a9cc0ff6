"""Edits and makes ELF files for tests: reads with pyelftools, writes with struct, shares nothing with the tool."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, cast

from elftools.elf.elffile import ELFFile

from tests.support.linked_elf import elf_file

NOP, MOV, BTI_C = 0xD503201F, 0xAA1E03E9, 0xD503245F


class ElfEdit:
    """The bytes of one ELF file, with its tables at hand."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = bytearray(path.read_bytes())
        self.elf = cast("Any", ELFFile(BytesIO(bytes(self.data))))
        self.symtab = self.elf.get_section_by_name(".symtab")
        self.symbols: dict[str, Any] = {s.name: s for s in self.symtab.iter_symbols() if s.name}

    def save(self, path: Path) -> Path:
        path.write_bytes(self.data)
        return path

    def value(self, name: str) -> int:
        return int(self.symbols[name]["st_value"])

    def offset(self, vaddr: int) -> int:
        for section in self.elf.iter_sections():
            inside = section["sh_addr"] <= vaddr < section["sh_addr"] + section["sh_size"]
            if section["sh_flags"] & 2 and section["sh_type"] != "SHT_NOBITS" and inside:
                return int(section["sh_offset"] + vaddr - section["sh_addr"])
        raise AssertionError(f"{vaddr:#x} is not in the file")

    def word(self, vaddr: int) -> int:
        return int(struct.unpack_from("<I", self.data, self.offset(vaddr))[0])

    def set_word(self, vaddr: int, word: int) -> None:
        struct.pack_into("<I", self.data, self.offset(vaddr), word)

    def set_quad(self, vaddr: int, quad: int) -> None:
        struct.pack_into("<Q", self.data, self.offset(vaddr), quad)

    def quad(self, vaddr: int) -> int:
        return int(struct.unpack_from("<Q", self.data, self.offset(vaddr))[0])

    def set_header(self, section: str, field: int, value: int) -> None:
        """Change a field of a section's header, by its offset: flags (8), address, offset and size have 64 bits."""
        index = next(k for k, each in enumerate(self.elf.iter_sections()) if each.name == section)
        form = "<Q" if 8 <= field < 40 or field >= 48 else "<I"
        struct.pack_into(form, self.data, self.elf.header["e_shoff"] + 64 * index + field, value)

    # symbols

    def symbol_offset(self, name: str) -> int:
        for index, symbol in enumerate(self.symtab.iter_symbols()):
            if symbol.name == name:
                return int(self.symtab["sh_offset"]) + 24 * index
        raise AssertionError(f"no symbol {name}")

    def set_symbol(self, name: str, *, value: int | None = None, info: int | None = None) -> None:
        at = self.symbol_offset(name)
        if value is not None:
            struct.pack_into("<Q", self.data, at + 8, value)
        if info is not None:
            self.data[at + 4] = info

    def rename_symbol(self, old: str, new: str) -> None:
        assert len(new) <= len(old)
        name_at = struct.unpack_from("<I", self.data, self.symbol_offset(old))[0]
        strings = self.elf.get_section(self.symtab["sh_link"])
        at = strings["sh_offset"] + name_at
        self.data[at : at + len(new) + 1] = new.encode() + b"\0"

    # relocations and records

    def rela(self) -> dict[int, int]:
        """Target address -> file offset of the 24-byte entry, all allocated RELA sections."""
        found = {}
        for section in self.elf.iter_sections():
            if section["sh_type"] == "SHT_RELA" and section["sh_flags"] & 2:
                for at in range(section["sh_offset"], section["sh_offset"] + section["sh_size"], 24):
                    found[struct.unpack_from("<Q", self.data, at)[0]] = at
        return found

    def slots(self) -> list[int]:
        return list(range(self.value("__start_mcount_loc"), self.value("__stop_mcount_loc"), 8))

    def record(self, slot: int) -> int:
        entry = self.rela().get(slot)
        if entry is None:
            return self.quad(slot)
        return int(struct.unpack_from("<q", self.data, entry + 16)[0]) % (1 << 64)

    def set_record(self, slot: int, value: int) -> None:
        entry = self.rela().get(slot)
        if entry is None:
            self.set_quad(slot, value)
        else:
            struct.pack_into("<Q", self.data, entry + 16, value)

    def live_slots(self) -> list[int]:
        return [slot for slot in self.slots() if self.record(slot)]

    def first_slot(self, slot: int, *, call_ops: bool) -> int:
        """Address of the first NOP of an unmoved record's pair."""
        value = self.record(slot)
        if not call_ops:
            return value
        return value + 12 if self.word(value + 8) == BTI_C else value + 8

    def slot_of(self, function: str) -> int:
        """Where the unmoved record of a function is."""
        call_ops = "ftrace_nop_ops" in self.symbols
        start = self.value(function)
        first = start + 4 if self.word(start) == BTI_C else start
        return next(slot for slot in self.live_slots() if self.first_slot(slot, call_ops=call_ops) == first)


@contextmanager
def edit(path: Path) -> Iterator[ElfEdit]:
    """Change a file in place."""
    elf = ElfEdit(path)
    yield elf
    elf.save(path)


def sign(elf: ElfEdit) -> None:
    """Append what looks like a module's signature."""
    elf.data += b"signature" + struct.pack(">BBBBB3xI", 0, 0, 2, 0, 0, 9) + b"~Module signature appended~\n"


def tiny_elf(sections: dict[str, tuple[int, bytes]]) -> bytes:
    """An ET_DYN whose sections ``name: (address, bytes)`` are allocated PROGBITS (RELR by name)."""
    rows = [(name, 19 if name == ".relr.dyn" else 1, *placed, 0, 0) for name, placed in sections.items()]
    return elf_file(rows)
