"""A real file, privately mapped: mutations are written into the mapping, looked at, and taken back."""

from __future__ import annotations

import mmap
import random
import struct
from functools import cached_property
from pathlib import Path

import numpy as np

from prologue.arrays import I64, U64
from prologue.elf.dynrelocs import RELA
from prologue.elf.image import ElfImage, unaligned
from prologue.elf.sections import Section
from prologue.elf.symbols import STT_FUNC, SYM, Symbol
from prologue.kernel import tables
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.kernel.module import Module
from prologue.kernel.records import Records
from prologue.kernel.sites import Sites


class World:
    """One vmlinux or module to be mutated."""

    def __init__(self, path: Path, seed: random.Random) -> None:
        self.path = path
        self.seed = seed
        with path.open("rb") as stream:
            self.memory = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        self._undo: list[tuple[int, bytes]] = []
        self.original = self.open()

    def open(self) -> Binary:
        """Read what is in the mapping now, from the start."""
        image = ElfImage(self.path, self.memory)
        return Module(image) if image.relocatable else Kernel(image)

    # writing

    def write(self, offset: int, data: bytes) -> None:
        """Change bytes of the file."""
        self._undo.append((offset, self.memory[offset : offset + len(data)]))
        self.memory[offset : offset + len(data)] = data

    def write_words(self, offsets: I64, words: U64, width: int) -> None:
        """Change many words, which are taken back as one piece."""
        if not len(offsets):
            return
        start, end = int(offsets.min()), int(offsets.max()) + width
        self._undo.append((start, self.memory[start:end]))
        unaligned(self.memory, width)[offsets] = words

    def restore(self) -> None:
        """Take everything back."""
        for offset, data in reversed(self._undo):
            self.memory[offset : offset + len(data)] = data
        self._undo.clear()

    def offset(self, vaddr: int) -> int:
        """File offset of an address."""
        found = int(self.original.image.offsets(np.array([vaddr], np.uint64))[0])
        assert found >= 0, hex(vaddr)
        return found

    def set_word(self, vaddr: int, word: int) -> None:
        self.write(self.offset(vaddr), struct.pack("<I", word))

    def flipped(self, vaddr: int) -> int:
        """Change some bit of a word; return the word's address."""
        self.set_word(vaddr, self.word(vaddr) ^ 1 << self.seed.randrange(32))
        return vaddr

    def word(self, vaddr: int) -> int:
        return int(struct.unpack_from("<I", self.memory, self.offset(vaddr))[0])

    def flip_bit(self, offset: int) -> None:
        """Change some bit of the byte at a file offset."""
        self.write(offset, bytes([self.memory[offset] ^ 1 << self.seed.randrange(8)]))

    def move_record(self, record: int, distance: int) -> None:
        """Let a record point somewhere else; its value lives in an addend or in its slot."""
        home = int(self.records.homes[record])
        value = struct.unpack_from("<Q", self.memory, home)[0]
        self.write(home, struct.pack("<Q", (value + distance) % (1 << 64)))

    # looking and choosing

    @property
    def sites(self) -> Sites:
        assert self.original.sites is not None
        return self.original.sites

    @property
    def records(self) -> Records:
        assert self.original.records is not None
        return self.original.records

    @property
    def is_kernel(self) -> bool:
        return isinstance(self.original, Kernel)

    def pick(self, values: U64 | I64) -> int:
        """One of the values."""
        return int(values[self.seed.randrange(len(values))])

    def site(self) -> int:
        """Index of some site."""
        return self.seed.randrange(len(self.sites))

    def record(self) -> int:
        """Index of some site's record."""
        return int(self.sites.record[self.site()])

    def sites_(self, count: int) -> list[int]:
        """Indices of that many different sites."""
        return self.seed.sample(range(len(self.sites)), count)

    @cached_property
    def code(self) -> U64:
        """Addresses of instructions that belong to no site and to no data: room for planted ones."""
        parts = []
        taken = np.concatenate([self.sites.first, self.sites.second])
        for section in self.original.image.text_sections:
            code = self.original.symbols.is_code(section)
            parts.append(np.uint64(section.addr) + np.flatnonzero(code).astype(np.uint64) * np.uint64(4))
        every = np.concatenate(parts)
        relocated = self.original.relocations.places if isinstance(self.original, Module) else taken
        return every[~np.isin(every, taken) & ~np.isin(every, relocated)]

    def jump_label(self) -> tuple[int, int]:
        """Addresses of some jump label's instruction and of where it branches to."""
        labels = tables.jump_labels(self.original)
        k = self.seed.randrange(len(labels.code))
        return int(labels.code[k]), int(labels.target[k])

    def section(self, name: str) -> Section:
        section = self.original.image.section(name)
        assert section is not None, name
        return section

    def pointer_at(self, vaddr: int) -> int:
        """File offset of what gives a pointer its value: the addend of its RELA entry, or the pointer itself."""
        entry = self._rela(vaddr)
        return self.offset(vaddr) if entry is None else entry + 16

    def rela_at(self, target: int) -> int:
        """File offset of the RELA entry for an address."""
        entry = self._rela(target)
        assert entry is not None, f"no relocation at {target:#x}"
        return entry

    def _rela(self, target: int) -> int | None:
        for section in self.original.image.sections:
            if section.type == "SHT_RELA" and section.allocated:
                hit = np.flatnonzero(self.original.image.view(section, RELA)["offset"] == target)
                if len(hit):
                    return section.offset + 24 * int(hit[0])
        return None

    # symbols

    @cached_property
    def _symtab(self) -> int:
        return next(s.offset for s in self.original.image.sections if s.type == "SHT_SYMTAB")

    @cached_property
    def _strtab(self) -> int:
        section = next(s for s in self.original.image.sections if s.type == "SHT_SYMTAB")
        return self.original.image.sections[section.link].offset

    def rows_at(self, vaddr: int) -> list[int]:
        """Rows of all symbols with that value."""
        found: list[int] = np.flatnonzero(self.original.symbols.values == vaddr).tolist()
        return found

    def symbol(self, name: str) -> Symbol:
        symbol = self.original.symbols.find(name)
        assert symbol is not None, name
        return symbol

    def row(self, name: str) -> int:
        """Row of the symbol of that name."""
        return next(row for row in self.rows_at(self.symbol(name).vaddr) if self.name(row) == name)

    def set_symbol(self, row: int, *, value: int | None = None, info: int | None = None) -> None:
        """Change a symbol; ``value`` is what the table holds (in a module an offset into the section)."""
        at = self._symtab + SYM.itemsize * row
        if value is not None:
            self.write(at + 8, struct.pack("<Q", value % (1 << 64)))
        if info is not None:
            self.write(at + 4, bytes([info]))

    def value(self, row: int) -> int:
        return int(self.original.symbols.table["value"][row])

    def rename(self, row: int, name: bytes) -> None:
        """Overwrite the beginning of a symbol's name, or with a final NUL all of it."""
        self.write(self._strtab + int(self.original.symbols.table["name"][row]), name)

    def name(self, row: int) -> str:
        start = self._strtab + int(self.original.symbols.table["name"][row])
        return self.memory[start : self.memory.find(b"\0", start)].decode()

    def lone_function(self, longer_than: int = 0) -> tuple[int, int]:
        """A site whose function has exactly one symbol, with a name so long: (site, row)."""
        while True:
            site = self.site()
            rows = self.rows_at(int(self.sites.entry[site]))
            table = self.original.symbols.table
            rows = [row for row in rows if table["name"][row] and not self.name(row).startswith("$")]
            if len(rows) == 1 and table["info"][rows[0]] & 15 == STT_FUNC and len(self.name(rows[0])) > longer_than:
                return site, rows[0]

    @cached_property
    def pristine(self) -> Binary:
        """The file itself, unchanged."""
        image = ElfImage(self.path)
        return Module(image) if image.relocatable else Kernel(image)
