"""Judges whether text in memory is that of a kernel's vmlinux, its slide or build is another's, or init was freed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prologue.elf.sections import Section
from prologue.elf.symbols import Symbols
from prologue.errors import InputError
from prologue.live.memory.base import Memory
from prologue.live.system.running_text import LiveSection
from prologue.words import counted

# What the running kernel gives away: memory from here to there (free_initmem, arch/arm64/mm/init.c, 6.1-7.2), and
# addresses before _stext, which 6.1 does not map (map_kernel, arch/arm64/mm/mmu.c). vmalloc may use either.
_INIT_BEGIN: Final = "__init_begin"
_INIT_END: Final = "__init_end"
_BEGIN: Final = "_stext"
_NAMES: Final = (".head.text", ".init.text", ".exit.text")


class AnotherKernelError(InputError):
    """The memory is that of another build of the kernel, or of another boot than its slide says."""


class TextOwnership:
    """Judges sections by how many words memory has of them, and how many of these differ from the file."""

    def __init__(self, symbols: Symbols, memory: Memory, slide: int) -> None:
        init, end, begin = (symbols.find(name) for name in (_INIT_BEGIN, _INIT_END, _BEGIN))
        self._freed = range(init.vaddr, end.vaddr) if init and end else range(0)
        self._begin = begin.vaddr if begin else 0
        # Symbols may have been stripped in part: then the names of sections say it.
        self._names = () if init and end and begin else _NAMES
        self._memory = memory.name
        self._slide = slide

    def may_be_freed(self, section: Section) -> bool:
        """Return whether the kernel may have given the section's memory to a new owner."""
        return section.addr in self._freed or section.addr < self._begin or section.name in self._names

    def is_there(self, live: LiveSection) -> bool:
        """Return whether memory has the section's text; not if it was freed and has a new owner.

        Raises:
            AnotherKernelError: it has other text.

        """
        has = live.there & ~live.zeros
        there, differ = int(has.sum()), int((live.words != live.linked)[has].sum())
        if 2 * differ <= there:
            return True
        if self.may_be_freed(live.section):
            return False
        raise self._not_this_text(live.section, there, differ)

    def require_main(self, sections: Iterable[LiveSection]) -> None:
        """Refuse memory that has no word of the largest section.

        Raises:
            AnotherKernelError: it has none.

        """
        main = max(sections, key=lambda live: len(live.linked))
        if not (main.there & ~main.zeros).any():
            raise self._not_this_text(main.section, 0, 0)

    def _not_this_text(self, section: Section, there: int, differ: int) -> AnotherKernelError:
        words = counted(there, "word differs", plural="words differ")
        difference = f"{differ:,} of {words}" if there else "there is no memory"
        return AnotherKernelError(
            f"does not hold this kernel's {section.name} at {section.addr + self._slide:#x} ({difference}): the slide "
            f"{self._slide:#x} is that of another boot, or the vmlinux that of another build",
            path=self._memory,
        )
