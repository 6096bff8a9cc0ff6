"""The judge of kprobes in modules: the kernel's rules, applied to one section of the module's text.

kernel/kprobes.c, ``check_kprobe_address_safe`` and ``add_module_kprobe_blacklist`` (6.1.192, 6.12.107, 7.2.13).
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

from prologue.elf.sections import Section
from prologue.kernel.module import Module
from prologue.kernel.tables import kprobe_blacklist
from prologue.live.probe.blacklist import Area
from prologue.live.probe.judge import Judge
from prologue.live.probe.module_symbols import ModuleSymbols

_LISTED: Final = (".kprobes.text", ".noinstr.text")


class ModuleJudge(Judge):
    """The judge of one section of a module's text, by the rules of its kernel."""

    def __init__(self, kernel: Judge, module: Module, symbols: ModuleSymbols, section: Section) -> None:
        self.kernel = module
        self.decoding = kernel.decoding
        self.kallsyms = symbols
        self.text = section
        self.text_range = range(section.addr, section.addr + section.size)
        self._count = section.size // 4
        self._of_kernel = kernel

    @cached_property
    def checks_notrace(self) -> bool:
        """True if its kernel refuses events of functions that ftrace cannot trace."""
        return self._of_kernel.checks_notrace

    def _listed(self) -> list[Area]:
        """Return the areas of the module's own list, and sections that are listed as a whole."""
        entries = kprobe_blacklist(self.kernel)
        starts, ends = self.kallsyms.spans(entries)
        sizes = (ends - starts).tolist()
        result = [
            Area(entry, entry + size, "the module's kprobe blacklist (NOKPROBE_SYMBOL)")
            for entry, size in zip(entries.tolist(), sizes, strict=True)
            if entry in self.text_range
        ]
        if self.text.name in _LISTED:
            result.append(Area(self.text_range.start, self.text_range.stop, self.text.name))
        return result


def judge_module(kernel: Judge, module: Module) -> tuple[Judge, ...]:
    """Return a judge for each section of the module's text, by address."""
    symbols = ModuleSymbols(module)
    text = sorted(module.image.text_sections, key=lambda section: section.addr)
    return tuple(ModuleJudge(kernel, module, symbols, section) for section in text if np.uint64(section.size) >= 4)
