"""A vmlinux as linkers leave it, in the smallest form that the kernel's sorttable takes, and markers of version 2."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final, Literal, cast

from elftools.elf.elffile import ELFFile

NOP, MOV, BTI_C, RET = 0xD503201F, 0xAA1E03E9, 0xD503245F, 0xD65F03C0
RELATIVE, ABS64 = 0x403, 0x101
TEXT: Final = 0xFFFF800080000000
INIT_DATA: Final = TEXT + 0x100000
TABLES: Final = TEXT + 0x200000
DATA: Final = TEXT + 0x400000
AARCH64, RISCV = 183, 243
Encoding = Literal["static", "RELA", "RELA in place", "RELR"]
_SPACING: Final = 32  # bytes from function to function
_MARKER: Final = struct.Struct("<8sIIQIIII")
SYMBOL: Final = "__ftrace_prologue_marker"


def marker(version: int = 2, flags: int = 2) -> bytes:
    """As the kernel's source has it."""
    return _MARKER.pack(b"PROLOGUE", version, flags, 0, 0, 0, 0, 0)


def relr(addresses: Sequence[int]) -> list[int]:
    """Encode addresses as LLD does: a chain ends where a bitmap would be empty, or at another alignment."""
    words: list[int] = []
    left = sorted(addresses)
    while left:
        base = left.pop(0)
        words.append(base)
        base += 8
        while left and (left[0] - base) % 8 == 0 and left[0] - base < 504:
            bits = 0
            while left and (left[0] - base) % 8 == 0 and left[0] - base < 504:
                bits |= 1 << (left.pop(0) - base) // 8
            words.append(bits << 1 | 1)
            base += 504
    return words


def elf_file(sections: Sequence[tuple[str, int, int, bytes, int, int]], kind: int = 3, machine: int = AARCH64) -> bytes:
    """Make a file of sections: name, type, address (of what is allocated), content, link, and bytes of an entry."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in dict.fromkeys(s[0] for s in sections))
    names += b".shstrtab\0"
    sections = [*sections, (".shstrtab", 3, 0, names, 0, 0)]
    count, last = len(sections) + 1, len(sections)
    big = count >= 0xFF00  # ELF: the first section's header has the numbers then
    body = bytearray()
    headers = [struct.pack("<IIQQQQIIQQ", 0, 0, 0, 0, 0, count * big, last * big, 0, 0, 0)]
    for name, form, address, content, link, size in sections:
        at = 64 + len(body)
        headers.append(
            struct.pack("<IIQQQQIIQQ", names.index(name.encode() + b"\0"), form, 2 if address else 0, address,
                        at, len(content), link, 1, 8, size)
        )  # fmt: skip
        body += content + bytes(-len(content) % 8)
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack(
        "<HHIQQQIHHHHHH", kind, machine, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64,
        0 if big else count, 0xFFFF if big else last,
    )  # fmt: skip
    return header + bytes(body) + b"".join(headers)


@dataclass(kw_only=True)
class Linked:
    """What the linker was given, and what it makes of it.

    ``order`` are numbers of functions, one for each record; a negative number is a record that points at none.
    ``others`` are addresses that have a relocation, too: in ``.data``, or in the ``room`` bytes before and after the
    table.
    """

    encoding: Encoding = "RELR"
    pre: int = 2
    bti: Sequence[int] = ()
    functions: int = 9
    order: Sequence[int] = (3, 1, 0, 2, -1, 8, 7, 5, 4, 6)
    others: Sequence[int] = (DATA, DATA + 8, DATA + 0x800, DATA + 0x1002)
    room: int = 0
    relr_words: Sequence[int] | None = None
    rela: Sequence[tuple[int, int, int]] | None = None
    marker: bytes = field(default_factory=marker)
    machine: int = AARCH64
    more_sections: int = 0

    @property
    def starts(self) -> list[int]:
        """Where the functions begin."""
        return [TEXT + 64 + _SPACING * number for number in range(self.functions)]

    @property
    def sites(self) -> list[int]:
        """The second slots of the functions that have a record."""
        return sorted(self._site(number) + 4 for number in self.order if number >= 0)

    def _site(self, number: int) -> int:
        return self.starts[number] + 4 * (number in self.bti)

    @property
    def records(self) -> list[int]:
        """As the compiler made them."""
        return [
            (self.starts[number] - 4 * self.pre if self.pre else self._site(number)) if number >= 0 else TEXT + 8
            for number in self.order
        ]

    @property
    def table(self) -> int:
        """Address of the first slot: after the marker, and the flag that the sorting of another table clears."""
        return INIT_DATA + 48 + self.room

    @property
    def free(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Where ``others`` may be, around the table."""
        end = self.table + 8 * len(self.order)
        return (self.table - self.room, self.table - 7), (end, end + self.room - 7)

    @property
    def slots(self) -> list[int]:
        return [self.table + 8 * number for number in range(len(self.order))]

    @property
    def nm(self) -> str:
        """What ``nm -S`` prints."""
        return "".join(f"{start:016x} {16:016x} T function_{number}\n" for number, start in enumerate(self.starts))

    def text(self) -> bytes:
        words = [RET] * (16 + (self.functions + 1) * _SPACING // 4)
        for number, start in enumerate(self.starts):
            at = (start - TEXT) // 4
            body = [*[NOP] * self.pre, *([BTI_C] if number in self.bti else []), NOP, NOP]
            words[at - self.pre : at - self.pre + len(body)] = body
        return struct.pack(f"<{len(words)}I", *words)

    def _relocations(self) -> tuple[list[tuple[int, int, int]], list[int]]:
        pairs = dict(zip(self.slots, self.records, strict=True)) | dict.fromkeys(self.others, TEXT)
        if self.encoding == "RELR":
            return [(DATA + 0x2000, RELATIVE, TEXT), (0, 0, 0)], relr([*pairs])
        if self.encoding == "static":
            return [], []
        rela = [(offset, RELATIVE, pairs[offset]) for offset in sorted(pairs)]
        return [*rela, (0, 0, 0), (DATA + 0x3000, 7 << 32 | ABS64, 0)], []

    def build(self) -> bytes:
        """The whole file."""
        rela, words = self._relocations()
        rela = rela if self.rela is None else list(self.rela)
        words = words if self.relr_words is None else list(self.relr_words)
        records = [0] * len(self.order) if self.encoding == "RELA" else self.records
        data = bytearray(0x4000)
        init_data = bytearray(self.marker or bytes(40)) + struct.pack("<Q", 1) + bytes(self.room)
        init_data += struct.pack(f"<{len(records)}Q", *records) + bytes(self.room)
        for address in self.others if self.encoding != "RELA" else ():
            start, content = (DATA, data) if address >= DATA else (INIT_DATA, init_data)
            struct.pack_into("<Q", content, address - start, TEXT)
        after = TABLES + 24 * len(rela)
        names = {"_text": TEXT, SYMBOL: INIT_DATA, "main_extable_sort_needed": INIT_DATA + 40,
                 "__start_mcount_loc": self.table, "__stop_mcount_loc": self.table + 8 * len(records)}  # fmt: skip
        if not self.marker:
            del names[SYMBOL]
        strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
        symbols = [bytes(24)]
        for name, value in names.items():
            section = 1 if name == "_text" else 2
            symbols.append(struct.pack("<IBBHQQ", strings.index(name.encode()), 0x11, 0, section, value, 0))
        sections = [
            (".text", 1, TEXT, self.text(), 0, 0),
            (".init.data", 1, INIT_DATA, bytes(init_data), 0, 0),
            ("__ex_table", 1, TEXT + 0x80000, bytes(12), 0, 0),
            (".rela.dyn", 4, TABLES, b"".join(struct.pack("<QQQ", *entry) for entry in rela), 0, 24),
            (".relr.dyn", 19, after, struct.pack(f"<{len(words)}Q", *words), 0, 8),
            (".data", 1, DATA, bytes(data), 0, 0),
            *[("more", 1, 0, b"", 0, 0)] * self.more_sections,
            (".symtab", 2, 0, b"".join(symbols), 8 + self.more_sections, 24),
            (".strtab", 3, 0, strings, 0, 0),
        ]  # fmt: skip
        return elf_file(sections, 2 if self.encoding == "static" else 3, self.machine)


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
