"""One executable section and the memory where it runs: which words to take, and what to report of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prologue.arrays import U64
from prologue.elf.image import ElfImage, Section
from prologue.memory.base import PAGE, Range
from prologue.memory.reading import Steady, zero_pages


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionText:
    """What became of a section; counts are of 4-byte words.

    ``changed`` differ from the file, ``kept`` stay as the file has them because memory has nothing there. ``unstable``
    are run-time addresses of words that still changed after several readings. ``data`` is what the section gets.
    """

    name: str
    offset: int
    vaddr: int
    words: int
    changed: int
    kept: int
    unstable: tuple[int, ...]
    data: bytes

    @property
    def taken(self) -> int:
        """Words that are memory's."""
        return self.words - self.kept


def text_range(section: Section, vaddr: int) -> Range:
    """What to read of a section that runs at ``vaddr``: its whole words."""
    return Range(vaddr, section.size & ~3)


def running_text(
    image: ElfImage, section: Section, vaddr: int, found: Steady, relocated: U64 | None = None
) -> SectionText:
    """A section as it was found at ``vaddr``. Pages that are not there keep the words of the file.

    Words with an index in ``relocated`` do not count as changed: a loader had to fill them in.
    """
    linked = image.data(section)
    size = len(found.data)
    missing = found.absent & ~zero_pages(linked[:size], vaddr)  # zeros where the file has zeros are as good as read
    kept = np.repeat(missing, PAGE // 4)[vaddr % PAGE // 4 :][: size // 4]
    old, new = np.frombuffer(linked, "<u4", size // 4), np.frombuffer(found.data, "<u4")
    chosen = np.where(kept, old, new)
    differ = chosen != old
    if relocated is not None:
        differ[relocated[relocated < len(differ)].astype(np.int64)] = False
    return SectionText(
        name=section.name,
        offset=section.offset,
        vaddr=vaddr,
        words=size // 4,
        changed=int(differ.sum()),
        kept=int(kept.sum()),
        unstable=found.unstable,
        data=chosen.astype("<u4").tobytes() + linked[size:],
    )


def kept_text(image: ElfImage, section: Section, vaddr: int) -> SectionText:
    """A section that is not running any more, with the words of the file."""
    words = section.size // 4
    return SectionText(
        name=section.name,
        offset=section.offset,
        vaddr=vaddr,
        words=words,
        changed=0,
        kept=words,
        unstable=(),
        data=image.data(section),
    )
