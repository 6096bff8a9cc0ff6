"""A symbol table with rows that the file's own does not have any more."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U64
from prologue.elf.image import ElfImage
from prologue.elf.symbols import STT_FUNC, SYM, Symbols
from prologue.words import counted

_GLOBAL: Final = 1 << 4
_SHN_ABS: Final = 0xFFF1


class RestoredSymbols(Symbols):
    """The file's symbols, and others of which names, addresses and extents are known; errors as ``Symbols``."""

    def __init__(self, image: ElfImage, names: list[str], starts: U64, stops: U64) -> None:
        super().__init__(image)
        self._typed = self.function_starts
        del self.function_starts  # it is to be made again, of all rows
        encoded = [name.encode() + b"\0" for name in names]
        lengths = np.array([len(name) for name in encoded], np.int64)
        self._text = image.data(self._strings) + b"".join(encoded) + b"\0" * 8
        rows = np.zeros(len(names), SYM)
        rows["name"] = self._strings.size + np.cumsum(lengths) - lengths
        rows["value"], rows["size"] = starts, stops - starts
        rows["shndx"] = _SHN_ABS
        for section in image.sections:
            if section.allocated and section.size:
                inside = starts - np.uint64(section.addr) < np.uint64(section.size)
                rows["shndx"][inside] = section.index
                rows["info"][inside] = _GLOBAL | (STT_FUNC if section.executable else 0)
        self.table = np.concatenate([self.table, rows])
        self._names = np.ascontiguousarray(self.table["name"])
        self._values = np.ascontiguousarray(self.table["value"])
        self._sections = np.concatenate([self._sections, rows["shndx"].astype(self._sections.dtype)])

    @property
    def typed_function_starts(self) -> U64:
        """Sorted addresses of the functions of the file: of a restored symbol in text only the address is known."""
        return self._typed


class LostSymbols(NamedTuple):
    """Number of symbols that the file lacks, and one of them."""

    lacking: int
    name: str

    def __str__(self) -> str:
        symbols = counted(self.lacking, "symbol")
        return f"stripped in part: {symbols}, such as {self.name}, taken from the kernel's own table (kallsyms)"
