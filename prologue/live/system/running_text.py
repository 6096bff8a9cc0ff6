"""The one reader of running text: which words memory has of an executable section, and what became of the others.

Audits, overlays and traces all take words from here, so that they say the same of a page that memory does not have, or
that holds zeros only. Such a page in text that stays was wiped, or could not be read (/proc/kcore gives zeros then): it
is what memory says, and no instruction of the file. Only if the kernel gave memory away do zeros mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U32, Bool
from prologue.elf.sections import Section
from prologue.elf.symbols import Symbols
from prologue.errors import InputError
from prologue.live.memory.base import Memory
from prologue.live.memory.capture import Capture
from prologue.live.memory.ranges import PAGE, Range
from prologue.live.memory.reading import StableReading, read_until_stable, zero_pages
from prologue.words import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSection:
    """An executable section as it runs; arrays of shape (size // 4,), one element for each word.

    ``linked`` are the words of the file; ``words`` are these, too, if ``present`` says that memory has none. ``zeros``
    are words that memory has, in pages of zeros that are none in the file. ``unstable`` are link-time addresses of
    words that still changed after several readings. ``freed`` if the kernel may have given the memory to a new owner:
    then nothing is missing.
    """

    section: Section
    linked: U32
    words: U32
    present: Bool
    zeros: Bool
    unstable: tuple[int, ...]
    freed: bool = False

    @property
    def missing(self) -> int:
        """Words that memory ought to have."""
        return 0 if self.freed else int((~self.present).sum())


class SectionPlace(NamedTuple):
    """A section, its words in the file, and where it runs; ``freed`` if its memory may have been given away."""

    section: Section
    linked: U32
    vaddr: int
    freed: bool = False


def read_sections(memory: Memory, sections: Sequence[SectionPlace]) -> list[LiveSection]:
    """Read sections; if the kernel runs, until they are stable (``read_until_stable``).

    Raises:
        InputError: memory cannot be read at all.

    """
    steady = read_until_stable(memory, [Range(placed.vaddr, 4 * len(placed.linked)) for placed in sections])
    changing = memory.unstable if isinstance(memory, Capture) else ()
    return [_live(placed, reading, changing) for placed, reading in zip(sections, steady, strict=True)]


def _live(placed: SectionPlace, steady: StableReading, changing: tuple[int, ...]) -> LiveSection:
    """Judge a section's words; ``changing`` are those that did not come to rest when memory was taken."""
    live, size = np.frombuffer(steady.data, "<u4"), len(placed.linked)
    blank = _of_words(zero_pages(steady.data, placed.vaddr), placed.vaddr, size)
    # Zeros where the file has zeros, too, are as good as read.
    plain = _of_words(zero_pages(placed.linked.tobytes(), placed.vaddr), placed.vaddr, size)
    present = steady.present & ~blank if placed.freed else steady.present | (blank & plain)
    zeros = present & blank & ~plain
    again = {place for place in changing if placed.vaddr <= place < placed.vaddr + 4 * size} - set(steady.unstable)
    shift = placed.vaddr - placed.section.addr
    unstable = tuple(place - shift for place in (*steady.unstable, *sorted(again)))
    words = np.where(present, live, placed.linked)
    zeros[[(place - placed.section.addr) // 4 for place in unstable]] = False
    return LiveSection(
        section=placed.section,
        linked=placed.linked,
        words=words,
        present=present,
        zeros=zeros,
        unstable=unstable,
        freed=placed.freed,
    )


def _of_words(pages: Bool, vaddr: int, count: int) -> Bool:
    """Repeat for each word what is said of its page."""
    return np.repeat(pages, PAGE // 4)[vaddr % PAGE // 4 :][:count]


def absent_section(placed: SectionPlace) -> LiveSection:
    """Make a section whose memory was given away: the words of the file."""
    no = np.zeros(len(placed.linked), np.bool_)
    section, linked = placed.section, placed.linked
    return LiveSection(section=section, linked=linked, words=linked, present=no, zeros=no, unstable=(), freed=True)


def require_loaded(sections: Iterable[LiveSection], path: Path, memory: Memory) -> None:
    """Refuse a module of which memory has no word, or zeros only.

    Raises:
        InputError: it has none.

    """
    loaded = [section for section in sections if len(section.words)]
    if loaded and not any((section.present & ~section.zeros).any() for section in loaded):
        zeros = any(section.zeros.any() for section in loaded)
        has, why = ("zeros only", "wiped or not read") if zeros else ("nothing", "not copied")
        message = f"{memory.name} has {has} where its text was loaded: unloaded meanwhile, or {why}; read memory again"
        raise InputError(message, path=path)


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
        has = live.present & ~live.zeros
        count, differ = int(has.sum()), int((live.words != live.linked)[has].sum())
        if 2 * differ <= count:
            return True
        if self.may_be_freed(live.section):
            return False
        raise self._not_this_text(live.section, count, differ)

    def require_main(self, sections: Iterable[LiveSection]) -> None:
        """Refuse memory that has no word of the largest section.

        Raises:
            AnotherKernelError: it has none.

        """
        main = max(sections, key=lambda live: len(live.linked))
        if not (main.present & ~main.zeros).any():
            raise self._not_this_text(main.section, 0, 0)

    def _not_this_text(self, section: Section, count: int, differ: int) -> AnotherKernelError:
        words = counted(count, "word differs", plural="words differ")
        difference = f"{differ:,} of {words}" if count else "there is no memory"
        return AnotherKernelError(
            f"does not hold this kernel's {section.name} at {section.addr + self._slide:#x} ({difference}): the slide "
            f"{self._slide:#x} is that of another boot, or the vmlinux that of another build",
            path=self._memory,
        )
