"""Finds addresses of code and data in debug information.

A linked vmlinux has no relocations for its DWARF, so nothing lists these places, and walking every entry takes minutes.
They are found by their values: eight bytes that are an address of this very kernel. That no other eight bytes are one
was seen by walking all of DWARF of two kernels (docs/decisions/0014-run-time-addresses-in-dwarf.md).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import I64, U64
from prologue.elf.image import SHF_COMPRESSED, ElfImage, unaligned
from prologue.elf.sections import Section
from prologue.errors import InputError

# Sections with strings, forms, and offsets of four bytes (DWARF 5, 7.3.2, "Split DWARF Object Files", table 7.1).
_WITHOUT: Final = frozenset({".debug_str", ".debug_line_str", ".debug_str_offsets", ".debug_abbrev", ".debug_macro"})
_CHUNK: Final = 1 << 20  # bytes that stay in a CPU's cache while they are compared


def debug_addresses(image: ElfImage, low: int, high: int) -> I64:
    """Find every address from ``low`` to ``high`` in debug sections: offsets in the file, ascending; shape (n,).

    ``high`` counts: ranges end there.

    Raises:
        InputError: a debug section is compressed.

    """
    places = [np.zeros(0, np.int64)]
    for section in sorted(image.sections, key=lambda section: section.offset):
        if section.allocated or not section.has_bytes or section.name in _WITHOUT:
            continue
        if section.name.startswith(".zdebug_") or (section.flags & SHF_COMPRESSED and _is_debug(section)):
            advice = "first run objcopy --decompress-debug-sections"
            raise InputError(
                f"{section.name} is compressed, so its addresses cannot be moved: {advice}", path=image.path
            )
        if _is_debug(section):
            places.append(_in_section(image, section, low, high))
    return np.concatenate(places)


def _is_debug(section: Section) -> bool:
    return section.name.startswith(".debug_") or section.name == ".gdb_index"


def _in_section(image: ElfImage, section: Section, low: int, high: int) -> I64:
    places = [np.zeros(0, np.int64)]
    end = section.offset + section.size
    for start in range(section.offset, end, _CHUNK):
        # Seven more: an address may begin in this chunk and end in the next.
        size = min(start + _CHUNK + 7, end) - start
        places.append(start + _in_bytes(image.read(start, size), low, high))
        image.drop_pages(start, _CHUNK)
    offsets = np.concatenate(places)
    # Two that overlap cannot both be addresses, and one must not spoil the other: the first counts.
    while len(near := np.flatnonzero(np.diff(offsets) < 8)):
        offsets = np.delete(offsets, near[0] + 1)
    return offsets


def _in_bytes(data: bytes, low: int, high: int) -> I64:
    """Find bytes at which an address begins, by its two highest bytes first, which are rare: indices, ascending."""
    raw = np.frombuffer(data, np.uint8)
    if len(raw) < 8:
        return np.zeros(0, np.int64)
    places = []
    for upper in range(low >> 48, (high >> 48) + 1):
        index = np.flatnonzero((raw[6:-1] == upper & 0xFF) & (raw[7:] == upper >> 8))
        values: U64 = unaligned(data, 8)[index]
        places.append(index[(values >= np.uint64(low)) & (values <= np.uint64(high))])
    return np.sort(np.concatenate(places))
