"""An executable section with the text that runs: what the copy gets, and what to report of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prologue.arrays import U64
from prologue.elf.image import ElfImage
from prologue.live.system.running_text import LiveSection


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionText:
    """Result for a section; counts are of 4-byte words.

    ``changed`` differ from the file, ``kept`` stay as the file has them because memory has nothing there; ``missing``
    of these are in text that the kernel does not give away. ``zeros`` are in pages of zeros, which memory has and the
    file has not. ``unstable`` are run-time addresses of words that still changed after several readings. ``data`` is
    what the section gets.
    """

    name: str
    offset: int
    vaddr: int
    words: int
    changed: int
    kept: int
    missing: int
    zeros: int
    unstable: tuple[int, ...]
    data: bytes

    @property
    def taken(self) -> int:
        """Words that are memory's."""
        return self.words - self.kept


class OverlaidFile(NamedTuple):
    """A vmlinux or module that was written."""

    name: str
    path: Path
    sections: tuple[SectionText, ...]


def section_text(image: ElfImage, live: LiveSection, slide: int, relocated: U64 | None = None) -> SectionText:
    """Describe a section that runs ``slide`` bytes from where the file has it.

    Words at addresses in ``relocated`` do not count as changed: a loader had to fill them in.
    """
    section, linked = live.section, image.data(live.section)
    differ = live.words != image.view(section, "<u4")
    if relocated is not None:
        rows = (relocated - np.uint64(section.addr)) >> np.uint64(2)  # of other sections: beyond all
        differ[rows[rows < len(differ)].astype(np.int64)] = False
    return SectionText(
        name=section.name,
        offset=section.offset,
        vaddr=section.addr + slide,
        words=len(live.words),
        changed=int(differ.sum()),
        kept=int((~live.there).sum()),
        missing=live.missing,
        zeros=int(live.zeros.sum()),
        unstable=tuple(place + slide for place in live.unstable),
        data=live.words.astype("<u4").tobytes() + linked[4 * len(live.words) :],
    )
