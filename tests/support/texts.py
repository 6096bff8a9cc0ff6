"""The text of a file where it runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prologue.arrays import U32
from prologue.elf.image import ElfImage


def text_at(path: Path, slide: int) -> list[tuple[int, U32]]:
    """Run-time address and words of each executable section."""
    image = ElfImage(path)
    sections = [(s.addr + slide, image.read_at(s.addr, s.size)) for s in image.text_sections]
    return [(vaddr, np.frombuffer(data, "<u4")) for vaddr, data in sections if data]
