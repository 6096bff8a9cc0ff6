"""What relocation makes of a kernel, by the ABI's words: decoded and carried out without a line of the tool's code."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

SHT_RELA: Final = 4
SHT_NOBITS: Final = 8
SHT_RELR: Final = 19
RELATIVE: Final = 0x403
_MASK: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Piece:
    """A section that is loaded, with its content."""

    name: str
    vaddr: int
    data: bytes


def by_the_book(words: Iterable[int]) -> list[int]:
    """Decode RELR as ``relocate_kernel()`` does, one word and one bit after the other: an even word is an address.

    An odd one has a bit for each of the 63 words that follow what was last covered.
    """
    places, where = [], 0
    for word in words:
        if word & 1:
            places += [where + 8 * bit for bit in range(63) if word >> bit + 1 & 1]
            where += 504
        else:
            places.append(word)
            where = word + 8
    return places


class RelocatedKernel:
    """A file's sections, and its relocations in the order of their tables."""

    def __init__(self, content: bytes) -> None:
        self.pieces: list[Piece] = []
        self.rela: list[tuple[int, int, int]] = []
        self.relr: list[int] = []
        for name, kind, vaddr, data in _sections(content):
            if name == ".symtab":
                self._symtab = data
            elif name == ".strtab":
                self._strtab = data
            elif not vaddr or not data:
                continue
            elif kind == SHT_RELA:
                self.rela += struct.iter_unpack("<QQQ", data)
            elif kind == SHT_RELR:
                self.relr += by_the_book(word for (word,) in struct.iter_unpack("<Q", data))
            if vaddr:
                self.pieces.append(Piece(name, vaddr, data))
        self._starts = sorted(piece.vaddr for piece in self.pieces)

    @property
    def table(self) -> range:
        """The bytes of the record table."""
        return range(self.symbol("__start_mcount_loc"), self.symbol("__stop_mcount_loc"))

    def symbol(self, name: str) -> int:
        """The value of the symbol; the tables of a whole kernel are too long to be read as objects."""
        # A name may also be the end of a longer one.
        places = {match.start() for match in re.finditer(re.escape(name.encode()) + rb"\0", self._strtab)}
        return next(int(value) for at, value in struct.iter_unpack("<I4xQ8x", self._symtab) if at in places)

    def read(self, vaddr: int, size: int) -> bytes:
        for piece in self.pieces:
            if piece.vaddr <= vaddr and vaddr + size <= piece.vaddr + len(piece.data):
                return piece.data[vaddr - piece.vaddr : vaddr - piece.vaddr + size]
        raise AssertionError(f"{vaddr:#x} is not in the file")

    def loaded(self, slide: int) -> dict[int, bytearray]:
        """Memory after ``relocate_kernel()``, by the address of each piece. It stops at the first entry of zeros."""
        memory = {piece.vaddr: bytearray(piece.data) for piece in self.pieces}
        for offset, info, addend in self.rela:
            if not info:
                break
            if info & 0xFFFFFFFF == RELATIVE:
                self._store(memory, offset, addend + slide)
        for address in self.relr if slide else ():
            self._store(memory, address, slide + self._load(memory, address))
        return memory

    def _place(self, memory: dict[int, bytearray], vaddr: int) -> tuple[bytearray, int]:
        start = self._starts[max(bisect_right(self._starts, vaddr) - 1, 0)]
        data = memory[start]
        assert start <= vaddr <= start + len(data) - 8, f"a relocation writes to {vaddr:#x}, outside of the file"
        return data, vaddr - start

    def _load(self, memory: dict[int, bytearray], vaddr: int) -> int:
        data, at = self._place(memory, vaddr)
        return int(struct.unpack_from("<Q", data, at)[0])

    def _store(self, memory: dict[int, bytearray], vaddr: int, value: int) -> None:
        data, at = self._place(memory, vaddr)
        struct.pack_into("<Q", data, at, value & _MASK)


def _sections(content: bytes) -> Iterator[tuple[str, int, int, bytes]]:
    """Name, type, address and bytes of each section; the first header has numbers that are too big elsewhere."""
    (headers,), (count, names_at) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<HH", content, 60)
    size, link = struct.unpack_from("<QI", content, headers + 32)
    table = [*struct.iter_unpack("<IIQQQQIIQQ", content[headers : headers + 64 * (count or size)])]
    _, _, _, _, at, length, *_ = table[link if names_at == 0xFFFF else names_at]
    names = content[at : at + length]
    for name, kind, _, vaddr, at, length, *_ in table:
        data = b"" if kind == SHT_NOBITS else content[at : at + length]
        yield names[name : names.index(b"\0", name)].decode(), kind, vaddr, data


def words_that_differ(before: RelocatedKernel, after: RelocatedKernel, slide: int) -> Iterator[tuple[str, int]]:
    """Compare both in memory: the section and the address of each 32-bit word that relocation leaves different."""
    one, other = before.loaded(slide), after.loaded(slide)
    assert one.keys() == other.keys()
    for piece in before.pieces:
        left, right = one[piece.vaddr], other[piece.vaddr]
        assert len(left) == len(right)
        for block in range(0, len(left), 4096):
            if left[block : block + 4096] != right[block : block + 4096]:
                for at in range(block, min(block + 4096, len(left)), 4):
                    if left[at : at + 4] != right[at : at + 4]:
                        yield piece.name, piece.vaddr + at
