"""The symbols that a running kernel has of a module: those of its symbol table in memory that stays.

kernel/module/kallsyms.c, ``is_core_symbol`` and ``find_kallsyms_symbol`` (6.1.192, 6.12.107, 7.2.13).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from prologue.arrays import I64, U64, sorted_unique
from prologue.kernel.module import Module


class ModuleSymbols:
    """The symbols of one module, with the interface of ``Kallsyms``; a section's start and end bound its symbols."""

    def __init__(self, module: Module) -> None:
        symbols, image = module.symbols, module.image
        rows = np.flatnonzero(symbols.defined)
        named = ((symbols.name_of(row), int(symbols.values[row])) for row in rows.tolist())
        text = [section for section in image.sections if section.allocated and section.size]
        bounds = [("", edge) for section in text for edge in (section.addr, section.addr + section.size)]
        pairs = sorted(
            ((vaddr, name) for name, vaddr in named if name and name[0] != "$" and image.section_at(vaddr)),
        )
        every = sorted([*pairs, *((vaddr, name) for name, vaddr in bounds)], key=lambda pair: (pair[0], not pair[1]))
        self.names = tuple(name for _, name in every)
        self.addresses: U64 = np.array([vaddr for vaddr, _ in every], np.uint64)

    @cached_property
    def starts(self) -> U64:
        """Addresses, ascending, each once; shape (n,)."""
        return sorted_unique(self.addresses)

    def spans(self, vaddrs: U64) -> tuple[U64, U64]:
        """Return the start of each address's symbol, and of the next symbol; shape of ``vaddrs``."""
        index = np.maximum(np.searchsorted(self.starts, vaddrs, side="right") - 1, 0)
        return self.starts[index], self.starts[np.minimum(index + 1, len(self.starts) - 1)]

    @cached_property
    def by_name(self) -> dict[str, list[int]]:
        """Addresses of each name, ascending."""
        result: dict[str, list[int]] = {}
        for name, vaddr in zip(self.names, self.addresses.tolist(), strict=True):
            if name:
                result.setdefault(name, []).append(vaddr)
        return result

    @cached_property
    def first_rows(self) -> I64:
        """Row of the first symbol at each of ``starts``."""
        rows: I64 = np.searchsorted(self.addresses, self.starts)
        return rows
