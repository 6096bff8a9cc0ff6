"""The judge of kprobes in modules: the kernel's rules, applied to one section of the module's text.

kernel/kprobes.c, ``check_kprobe_address_safe`` and ``add_module_kprobe_blacklist``; kernel/module/kallsyms.c,
``is_core_symbol`` and ``find_kallsyms_symbol`` (6.1.192, 6.12.107, 7.2.13).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final

import numpy as np

from prologue.elf.sections import Section
from prologue.kernel.kallsyms import Kallsyms
from prologue.kernel.module import Module
from prologue.probe.judge import Area, Judge, listed_symbols

_LISTED: Final = (".kprobes.text", ".noinstr.text")


class ModuleSymbols(Kallsyms):
    """The symbols that a running kernel has of a module: those of its symbol table in memory that stays.

    A section's start and end bound its symbols: they are symbols without a name.
    """

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
        self.addresses = np.array([vaddr for vaddr, _ in every], np.uint64)

    @cached_property
    def by_name(self) -> dict[str, list[int]]:
        """Addresses of each name, ascending."""
        return {name: vaddrs for name, vaddrs in super().by_name.items() if name}


class ModuleJudge(Judge):
    """The judge of one section of a module's text, by the rules of its kernel."""

    def __init__(self, kernel: Judge, module: Module, symbols: ModuleSymbols, section: Section) -> None:
        self.kernel = module
        self.decoding = kernel.decoding
        self.checks_notrace = kernel.checks_notrace
        self.kallsyms = symbols
        self.text = section
        self.text_range = range(section.addr, section.addr + section.size)
        self._count = section.size // 4

    def _listed(self) -> Iterator[Area]:
        """Yield the areas of the module's own list, and sections that are listed as a whole."""
        yield from listed_symbols(self.kernel, self.kallsyms, self.text_range, "the module's kprobe blacklist")
        if self.text.name in _LISTED:
            yield Area(self.text_range.start, self.text_range.stop, self.text.name)


def judge_module(kernel: Judge, module: Module) -> tuple[Judge, ...]:
    """Return a judge for each section of the module's text, by address."""
    symbols = ModuleSymbols(module)
    text = sorted(module.image.text_sections, key=lambda section: section.addr)
    return tuple(ModuleJudge(kernel, module, symbols, section) for section in text if np.uint64(section.size) >= 4)
