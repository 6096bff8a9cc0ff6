"""The marker by which a kernel with our source patch and this tool talk to each other.

``__ftrace_prologue_marker`` in init data, 8-aligned, 24 bytes, little-endian::

    u64 magic     the bytes "PROLOGUE"
    u32 version   1
    u32 flags     bit 0: prologues and records are in place
    u64 sites     how many; 0 while flags is 0
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import InputError

SYMBOL: Final = "__ftrace_prologue_marker"
MAGIC: Final = int.from_bytes(b"PROLOGUE", "little")
VERSION: Final = 1
PROCESSED: Final = 1
_LAYOUT: Final = struct.Struct("<QIIQ")


class Marker(NamedTuple):
    """The marker as it stands in the file."""

    vaddr: int
    offset: int  # file offset
    flags: int
    sites: int

    @property
    def processed(self) -> bool:
        """Whether the kernel will take its records as they are and write no text."""
        return bool(self.flags & PROCESSED)


def state_word(flags: int) -> int:
    """Version and flags as the one 8-byte word that is written last."""
    return VERSION | flags << 32


def find_marker(image: ElfImage, symbols: Symbols) -> Marker | None:
    """Read the marker; None if this kernel has none.

    Raises:
        InputError: a marker that this version of the tool does not understand.

    """
    symbol = symbols.find(SYMBOL)
    if symbol is None:
        _require_none(image)
        return None
    where = symbols.locate(symbol.vaddr)
    raw = image.read_at(symbol.vaddr, _LAYOUT.size)
    if raw is None or symbol.vaddr % 8:
        raise InputError("the marker is not 24 aligned bytes of the file", path=image.path, where=where)
    magic, version, flags, sites = _LAYOUT.unpack(raw)
    if magic != MAGIC or version != VERSION:
        raise InputError(
            f"marker with magic {magic:#x} and version {version}; this prologue knows {MAGIC:#x} and {VERSION}",
            path=image.path,
            where=where,
        )
    offset = int(image.offsets(np.array([symbol.vaddr], np.uint64))[0])
    return Marker(symbol.vaddr, offset, flags, sites)


def _require_none(image: ElfImage) -> None:
    """Refuse a marker without its symbol: the kernel would still obey it."""
    section = image.section(".init.data")
    if section is None:
        return
    word, offset = MAGIC.to_bytes(8, "little"), -1
    while (offset := image.find(word, section, offset + 1)) >= 0:
        if (section.addr + offset) % 8 or offset + _LAYOUT.size > section.size:
            continue
        _, version, flags, _ = _LAYOUT.unpack(image.read(section.offset + offset, _LAYOUT.size))
        if version == VERSION and flags <= PROCESSED:
            raise InputError(
                f"stripped in part: a marker at {section.addr + offset:#x} without its symbol {SYMBOL}: "
                "give the vmlinux as it was linked",
                path=image.path,
            )
