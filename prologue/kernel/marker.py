"""The marker by which a kernel with our source patch and this tool talk to each other.

``__ftrace_prologue_marker`` in init data, 8-aligned, little-endian. Version 1 has 24 bytes, version 2 has 40::

    u64 magic     the bytes "PROLOGUE"
    u32 version   1 or 2
    u32 flags     bit 0 BUILT; version 2 only: bit 1 OFFSETS, bit 31 WRITING
    u64 sites     how many; 0 while BUILT is clear
    u32 encoding  what the linker gave the records   \
    u32 first     where relocations were taken out    } version 2; no kernel reads them
    u32 count     how many                           /
    u32 reserved  0

docs/kernel-contract.md says what each means.
"""

from __future__ import annotations

import struct
from dataclasses import KW_ONLY, dataclass
from typing import Final

import numpy as np

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import InputError

SYMBOL: Final = "__ftrace_prologue_marker"
MAGIC: Final = int.from_bytes(b"PROLOGUE", "little")
VERSIONS: Final = (1, 2)
BUILT: Final = 1  # MOVs, records and relocations are in place: set last
OFFSETS: Final = 1 << 1  # the kernel takes records as 32-bit offsets from _text: set in its source
WRITING: Final = 1 << 31  # a tool writes into the file: set first, cleared by the last write
SIZES: Final = {1: 24, 2: 40}
_FLAGS: Final = {1: BUILT, 2: BUILT | OFFSETS | WRITING}
_HEAD: Final = struct.Struct("<QIIQ")
_TAIL: Final = struct.Struct("<4I")


@dataclass(frozen=True, slots=True)
class Marker:
    """The marker as it stands in the file; the last four are zero in version 1."""

    vaddr: int
    offset: int  # file offset
    flags: int
    sites: int
    _: KW_ONLY
    version: int = 1
    encoding: int = 0
    first: int = 0
    extent: int = 0  # the field ``count``
    reserved: int = 0

    @property
    def processed(self) -> bool:
        """True if the kernel will take its records as they are and write no text."""
        return bool(self.flags & BUILT)

    @property
    def offsets(self) -> bool:
        """True if the kernel takes records as 32-bit offsets once the marker is set."""
        return self.version > 1 and bool(self.flags & OFFSETS)

    @property
    def writing(self) -> bool:
        """True if a run that writes in place has begun and not ended."""
        return self.version > 1 and bool(self.flags & WRITING)

    @property
    def unknown_flags(self) -> int:
        """Bits that this version of the marker does not have."""
        return self.flags & ~_FLAGS[self.version]

    def state_word(self, flags: int) -> int:
        """Return version and flags as the one 8-byte word that is written last; flags that the source set stay."""
        return self.version | (flags | (self.flags & OFFSETS if self.version > 1 else 0)) << 32


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
    raw = image.read_at(symbol.vaddr, _HEAD.size)
    if raw is None or symbol.vaddr % 8:
        raise InputError("the marker is not 24 aligned bytes of the file", path=image.path, where=where)
    magic, version, flags, sites = _HEAD.unpack(raw)
    if magic != MAGIC or version not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        raise InputError(
            f"marker with magic {magic:#x} and version {version}; this prologue knows {MAGIC:#x} and versions {known}",
            path=image.path,
            where=where,
        )
    offset = int(image.offsets(np.array([symbol.vaddr], np.uint64))[0])
    if version == 1:
        return Marker(symbol.vaddr, offset, flags, sites)
    tail = image.read_at(symbol.vaddr + _HEAD.size, _TAIL.size)
    if tail is None:
        raise InputError(f"the marker is not {SIZES[2]} bytes of the file", path=image.path, where=where)
    encoding, first, extent, reserved = _TAIL.unpack(tail)
    return Marker(
        symbol.vaddr, offset, flags, sites,
        version=version, encoding=encoding, first=first, extent=extent, reserved=reserved,
    )  # fmt: skip


def _require_none(image: ElfImage) -> None:
    """Refuse a marker without its symbol: the kernel would still obey it."""
    section = image.section(".init.data")
    if section is None:
        return
    word, offset = MAGIC.to_bytes(8, "little"), -1
    while (offset := image.find(word, section, offset + 1)) >= 0:
        if (section.addr + offset) % 8 or offset + _HEAD.size > section.size:
            continue
        _, version, flags, _ = _HEAD.unpack(image.read(section.offset + offset, _HEAD.size))
        if version in VERSIONS and not flags & ~_FLAGS[version]:
            raise InputError(
                f"stripped in part: a marker at {section.addr + offset:#x} without its symbol {SYMBOL}: "
                "give the vmlinux as it was linked",
                path=image.path,
            )
