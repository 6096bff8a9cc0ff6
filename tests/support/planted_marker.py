"""A marker of version 2 in a kernel that has none: a section, a symbol and its name are made longer."""

from __future__ import annotations

import struct
from io import BytesIO
from typing import Any, cast

from elftools.elf.elffile import ELFFile

from tests.support.linked_elf import SYMBOL, marker

_ROOM = 64


def plant_marker(content: bytes) -> bytes:
    """Put it into the padding after a section with data; the symbol takes the place of the last local one."""
    data = bytearray(content)
    elf = cast("Any", ELFFile(BytesIO(content)))
    sections = list(elf.iter_sections())
    headers = [elf["e_shoff"] + elf["e_shentsize"] * number for number in range(len(sections))]
    number = _with_room(content, sections)
    section = sections[number]
    size = section["sh_size"] + -(section["sh_addr"] + section["sh_size"]) % 8
    at = section["sh_offset"] + size
    data[at : at + 40] = marker()
    struct.pack_into("<Q", data, headers[number] + 32, size + 40)

    symtab = elf.get_section_by_name(".symtab")
    names = sections[symtab["sh_link"]].data()
    struct.pack_into("<QQ", data, headers[symtab["sh_link"]] + 24, len(data), len(names) + len(SYMBOL) + 1)
    entry = symtab["sh_offset"] + 24 * (symtab["sh_info"] - 1)
    struct.pack_into("<IBBHQQ", data, entry, len(names), 1, 0, number, section["sh_addr"] + size, 40)
    return bytes(data) + bytes(names) + SYMBOL.encode() + b"\0"


def _with_room(content: bytes, sections: list[Any]) -> int:
    """The first section with data, and zeros after it that belong to no other."""
    stored = [s for s in sections if s["sh_type"] not in ("SHT_NOBITS", "SHT_NULL") and s["sh_size"]]
    for number, section in enumerate(sections):
        flags, end = section["sh_flags"], section["sh_offset"] + section["sh_size"]
        if section["sh_type"] != "SHT_PROGBITS" or not flags & 2 or flags & 4 or any(content[end : end + _ROOM + 8]):
            continue
        last = section["sh_addr"] + section["sh_size"]
        if not any(s["sh_offset"] < end + _ROOM and s["sh_offset"] >= end for s in stored) and not any(
            s["sh_addr"] < last + _ROOM and s["sh_addr"] >= last for s in sections if s["sh_flags"] & 2
        ):
            return number
    raise AssertionError("no section with room for a marker")
