"""Makes an ELF executable of pieces of memory and symbols: for debuggers and disassemblers, not to be run."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.elf.sections import EHDR, PHDR, SHDR, SHF_ALLOC, SHF_EXECINSTR
from prologue.elf.symbols import STB_LOCAL, SYM

_IDENT: Final = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
_ET_EXEC, _EM_AARCH64 = 2, 183
_PROGBITS, _SYMTAB, _STRTAB, _NOTE, _NOBITS = 1, 2, 3, 7, 8
_PT_LOAD, _PF_R, _PF_X = 1, 4, 1
_NT_GNU_BUILD_ID: Final = 3
_PAGE: Final = 4096
_SHF_WRITE: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSection:
    """An allocated section with its bytes, or data of which there are none (``data`` is None)."""

    name: str
    vaddr: int
    size: int
    data: bytes | None
    flags: int = SHF_ALLOC | SHF_EXECINSTR  # if there are bytes


def write_executable(
    sections: Sequence[NewSection], symbols: npt.NDArray[Any], names: Sequence[str], build_id: str = ""
) -> bytes:
    """Make the file: ``symbols`` is an array of ``SYM``, whose ``name`` is a row of ``names``.

    A symbol's section is the number of one of ``sections``, from 1 on. ``build_id`` is hexadecimal.
    """
    encoded = [name.encode() for name in names]
    starts = np.fromiter(accumulate((len(name) + 1 for name in encoded), initial=1), np.uint32, len(encoded) + 1)
    order = np.argsort(symbols["info"] >> 4 != STB_LOCAL, kind="stable")  # local ones come first
    table = np.concatenate([np.zeros(1, SYM), symbols[order]])
    table["name"][1:] = starts[table["name"][1:]]
    first_global = 1 + int((symbols["info"] >> 4 == STB_LOCAL).sum())
    file = _File(EHDR.size + PHDR.size * sum(section.data is not None for section in sections))
    for section in sections:
        file.add_memory(section)
    if build_id:
        raw = bytes.fromhex(build_id)
        note = struct.pack("<III4s", 4, len(raw), _NT_GNU_BUILD_ID, b"GNU") + raw
        file.add(".note.gnu.build-id", _NOTE, note + bytes(-len(note) % 4), align=4)
    strings = len(file.headers) + 1
    file.add(".symtab", _SYMTAB, table.tobytes(), link=strings, info=first_global, align=8, entry=SYM.itemsize)
    file.add(".strtab", _STRTAB, b"\0" + b"".join(name + b"\0" for name in encoded))
    return file.finish()


class _File:
    def __init__(self, size: int) -> None:
        self._at = size
        self._parts = list[bytes]()
        self._segments = list[bytes]()
        self._names = bytearray(b"\0")
        self.headers = [SHDR.pack(*[0] * 10)]

    def add_memory(self, section: NewSection) -> None:
        if section.data is None:
            self._header(section.name, _NOBITS, SHF_ALLOC | _SHF_WRITE, section.vaddr, section.size)
            return
        self._pad(_PAGE, section.vaddr)
        self._segments.append(
            PHDR.pack(_PT_LOAD, _PF_R | _PF_X, self._at, *[section.vaddr] * 2, *[section.size] * 2, _PAGE)
        )
        self._header(section.name, _PROGBITS, section.flags, section.vaddr, section.size, align=4)
        self._append(section.data)

    def add(  # noqa: PLR0913 - as _header
        self, name: str, kind: int, data: bytes, *, link: int = 0, info: int = 0, align: int = 1, entry: int = 0
    ) -> None:
        self._pad(align, 0)
        self._header(name, kind, 0, 0, len(data), link=link, info=info, align=align, entry=entry)
        self._append(data)

    def finish(self) -> bytes:
        names = len(self.headers)
        start = len(self._names)
        self._names += b".shstrtab\0"
        self.headers.append(SHDR.pack(start, _STRTAB, 0, 0, self._at, len(self._names), 0, 0, 1, 0))
        self._append(bytes(self._names))
        self._pad(8, 0)
        head = EHDR.pack(
            _IDENT, _ET_EXEC, _EM_AARCH64, 1, 0, EHDR.size, self._at, 0, EHDR.size, PHDR.size, len(self._segments),
            SHDR.size, len(self.headers), names,
        )  # fmt: skip
        return b"".join([head, *self._segments, *self._parts, *self.headers])

    def _header(  # noqa: PLR0913 - the fields of Elf64_Shdr
        self,
        name: str,
        kind: int,
        flags: int,
        vaddr: int,
        size: int,
        *,
        link: int = 0,
        info: int = 0,
        align: int = 1,
        entry: int = 0,
    ) -> None:
        self.headers.append(SHDR.pack(len(self._names), kind, flags, vaddr, self._at, size, link, info, align, entry))
        self._names += name.encode() + b"\0"

    def _pad(self, align: int, vaddr: int) -> None:
        """Add zeros until the next byte of the file is as far from a multiple of ``align`` as ``vaddr`` is."""
        self._append(bytes((vaddr - self._at) % align))

    def _append(self, data: bytes) -> None:
        self._parts.append(data)
        self._at += len(data)
