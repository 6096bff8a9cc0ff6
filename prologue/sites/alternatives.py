"""The words that ``.altinstructions`` will replace at boot: other writers' words, not ours."""

from __future__ import annotations

import numpy as np

from prologue.elf.image import U64, ElfImage

# struct alt_instr (kernel arch/arm64/include/asm/alternative.h, 5.5-6.12): offsets are from their own field.
ALT = np.dtype([("orig", "<i4"), ("alt", "<i4"), ("cpucap", "<u2"), ("orig_len", "u1"), ("alt_len", "u1")])


def alternative_words(image: ElfImage) -> U64:
    """Sorted addresses of all instructions that an alternative may replace, shape (n,)."""
    section = image.section(".altinstructions")
    if section is None or not section.has_bytes:
        return np.zeros(0, np.uint64)
    table = image.view(section, ALT)
    # Wraps around 2**64 on purpose: kernel addresses are large and offsets are negative.
    fields = np.uint64(section.addr) + np.arange(len(table), dtype=np.uint64) * np.uint64(ALT.itemsize)
    start = fields + table["orig"].astype(np.int64).view(np.uint64)
    count = table["orig_len"].astype(np.int64) // 4
    first = np.repeat(start, count)
    step = np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
    return np.unique(first + step.astype(np.uint64) * np.uint64(4))
