"""Relocations of a module: what its loader will write where.

In an ``ET_REL`` file a branch to another function is ``BL`` with an empty offset and a relocation, and a pointer is
eight zeros and a relocation, so nothing can be read from the bytes alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.elf.dynrelocs import RELA
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import InputError

# AAELF64, "Relocation codes"
R_ABS64: Final = 257
R_BRANCHES: Final = (279, 280, 282, 283)  # TSTBR14, CONDBR19, JUMP26, CALL26
# Relocations that make an address: data, ADR, ADRP, ADD and MOVW. Loads and stores use one, too, but as a place to
# read from, and no code loads from a patch site.
R_POINTERS: Final = (*range(257, 278), *range(287, 299))


@dataclass(frozen=True, kw_only=True)
class Relocations:
    """All relocations of allocated sections, ascending by place; every array has shape (n,)."""

    places: U64
    types: U64
    targets: U64  # S + A; 0 if the symbol is another module's
    defined: Bool  # the symbol is this module's
    homes: I64  # file offset of the addend
    symbols: I64  # row of the symbol in the symbol table

    def __len__(self) -> int:
        return len(self.places)

    def of_types(self, types: tuple[int, ...]) -> I64:
        """Return the indices of the relocations of these types."""
        rows: I64 = np.flatnonzero(np.isin(self.types, np.array(types, np.uint64)))
        return rows

    def targets_of(self, places: U64) -> U64:
        """Return the address written at each place; 0 if it has no relocation, or one with another module's symbol."""
        if not len(self):
            return np.zeros(len(places), np.uint64)
        index = np.minimum(np.searchsorted(self.places, places), len(self) - 1)
        return np.where(self.places[index] == places, self.targets[index], np.uint64(0))

    def branch_at(self, place: int) -> int:
        """Return the index of the relocation of a branch at a place; -1 if there is none."""
        index = int(np.searchsorted(self.places, np.uint64(place)))
        is_branch = index < len(self) and self.places[index] == place and int(self.types[index]) in R_BRANCHES
        return index if is_branch else -1

    @cached_property
    def branches(self) -> tuple[U64, U64, Bool]:
        """Places and targets of relocated direct branches, and which targets are in this module."""
        index = self.of_types(R_BRANCHES)
        return self.places[index], self.targets[index], self.defined[index]


def read_relocations(image: ElfImage, symbols: Symbols) -> Relocations:
    """Read every relocation section whose target is allocated.

    Raises:
        InputError: a table of odd size, a symbol that does not exist, or a place outside of its section.

    """
    none = np.zeros(0, np.uint64)
    parts: list[tuple[U64, U64, U64, Bool, I64, I64]] = [
        (none, none, none, none.astype(np.bool_), none.astype(np.int64), none.astype(np.int64))
    ]
    for section in image.sections:
        if section.type != "SHT_RELA" or not section.has_bytes:
            continue
        if not 0 < section.info < len(image.sections):
            raise InputError(f"{section.name} is for section {section.info}, which does not exist", path=image.path)
        target = image.sections[section.info]
        if not target.allocated:
            continue
        if section.size % RELA.itemsize:
            raise InputError(f"{section.name} is not a table of 24-byte RELA entries", path=image.path)
        table = image.view(section, RELA)
        index = (table["info"] >> np.uint64(32)).astype(np.int64)
        if len(index) and int(index.max()) >= len(symbols.values):
            raise InputError(f"{section.name} names symbol {int(index.max())}, which does not exist", path=image.path)
        if len(table) and int(table["offset"].max()) >= target.size:
            raise InputError(f"{section.name} relocates a place after the end of {target.name}", path=image.path)
        defined = symbols.defined[index]
        parts.append(
            (
                table["offset"] + np.uint64(target.addr),
                table["info"] & np.uint64(0xFFFFFFFF),
                np.where(defined, symbols.values[index] + table["addend"].astype(np.uint64), np.uint64(0)),
                defined,
                section.offset + np.arange(len(table), dtype=np.int64) * RELA.itemsize + 16,
                index,
            )
        )
    places, types, targets, defined, homes, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(places, kind="stable")
    return Relocations(
        places=places[order], types=types[order], targets=targets[order], defined=defined[order], homes=homes[order],
        symbols=rows[order],
    )  # fmt: skip
