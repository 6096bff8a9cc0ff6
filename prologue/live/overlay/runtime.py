"""A vmlinux with the addresses that KASLR gave the kernel, so that no tool has to subtract the slide.

What a linker writes for another start address changes: symbols, sections, segments, the entry, relocations and what
they fill in, and addresses in DWARF. All are little-endian words of eight bytes, so nothing moves within the file.

A linked vmlinux has no relocations for its DWARF, so nothing lists these places, and walking every entry takes minutes.
They are found by their values: eight bytes that are an address of this very kernel. That no other eight bytes are one
was seen by walking all of DWARF of two kernels (docs/decisions/0014-run-time-addresses-in-dwarf.md).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U64
from prologue.elf.dynrelocs import R_AARCH64_RELATIVE, RELA, relocated
from prologue.elf.image import SHF_COMPRESSED, ElfImage, unaligned
from prologue.elf.sections import Section
from prologue.elf.symbols import SYM
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


# Offsets in Elf64_Ehdr, Elf64_Shdr and Elf64_Phdr, and sizes of the last two (System V gABI, "ELF Header", "Sections",
# "Program Header").
_E_ENTRY, _E_PHOFF, _E_SHOFF, _E_PHNUM = 24, 32, 40, 56
_SH_ADDR, _SHDR_SIZE, _P_VADDR, _P_PADDR, _PHDR_SIZE = 16, 64, 16, 24, 56
_ST_VALUE, _R_ADDEND = 8, 16
_SPAN: Final = 16 << 20  # bytes of the file that are read and written at once


class Moves(NamedTuple):
    """Words of eight bytes that change, by their offsets in the file; each array has shape (n,).

    ``slide`` is added to those at ``added``, ascending; those at ``filled`` become ``values``.
    """

    slide: int
    added: I64
    filled: I64
    values: U64


def find_moves(image: ElfImage, slide: int, text: Iterable[range]) -> Moves:
    """Find every word of the file that holds an address, to make it one of a kernel ``slide`` bytes higher.

    ``text`` are those parts of the file that memory gave: their words are what they are.

    Raises:
        InputError: compressed debug sections, or damaged relocations.

    """
    low, high = _extent(image)
    added = [*_in_headers(image, low, high), *_in_symbols(image, low, high), *_in_relocations(image, low, high)]
    added.append(debug_addresses(image, low, high))
    places, values = relocated(image)
    filled = image.offsets(places)
    kept = filled >= 0
    for part in text:
        kept &= (filled < part.start) | (filled >= part.stop)
    return Moves(slide, np.sort(np.concatenate(added)), filled[kept], values[kept] + _unsigned(slide))


def carry_out(moves: Moves, fd: int) -> None:
    """Change the words of an open file, which is a copy of the one they were found in.

    Raises:
        OSError: it cannot be read or written.

    """
    for offsets in _near(moves.added):
        start, data = _read(fd, offsets)
        words = unaligned(data, 8)
        words[offsets - start] += _unsigned(moves.slide)
        _write(fd, start, data)
    order = np.argsort(moves.filled)
    ordered, values = moves.filled[order], moves.values[order]
    for offsets in _near(ordered):
        start, data = _read(fd, offsets)
        unaligned(data, 8)[offsets - start] = values[np.searchsorted(ordered, offsets)]
        _write(fd, start, data)


def _unsigned(slide: int) -> np.uint64:
    return np.uint64(slide % (1 << 64))


def _extent(image: ElfImage) -> tuple[int, int]:
    """Return the kernel's first address and the one after its last: ``_end`` is a symbol after all sections."""
    sections = [s for s in image.sections if s.allocated and s.size]
    ends = [s.addr + s.size for s in sections]
    allocated = np.array([s.index for s in sections], np.uint16)
    for section in image.sections:
        if section.type == "SHT_SYMTAB" and section.has_bytes:
            table = image.view(section, SYM)
            ends.append(int(table["value"][np.isin(table["shndx"], allocated)].max(initial=0)))
    return min(s.addr for s in sections), max(ends)


def _in_headers(image: ElfImage, low: int, high: int) -> Iterator[I64]:
    """Find addresses in the headers of the file, of its sections and of its segments."""
    words = image.words_at(np.array([_E_PHOFF, _E_SHOFF]), 8).tolist()
    count = int.from_bytes(image.read(_E_PHNUM, 2), "little")
    sections = np.array([s.index for s in image.sections if s.allocated], np.int64)
    yield words[1] + sections * _SHDR_SIZE + _SH_ADDR
    segments = words[0] + np.arange(count, dtype=np.int64) * _PHDR_SIZE
    others = np.concatenate([segments + _P_VADDR, segments + _P_PADDR, np.array([_E_ENTRY])])
    yield _inside(image, others, low, high)


def _in_symbols(image: ElfImage, low: int, high: int) -> Iterator[I64]:
    """Find symbols' values; absolute ones are addresses if the kernel has them (``__efistub_``, ``__kvm_nvhe_``)."""
    for section in image.sections:
        if section.type in ("SHT_SYMTAB", "SHT_DYNSYM") and section.has_bytes:
            rows = np.arange(len(image.view(section, SYM)), dtype=np.int64)
            yield _inside(image, section.offset + rows * SYM.itemsize + _ST_VALUE, low, high)


def _in_relocations(image: ElfImage, low: int, high: int) -> Iterator[I64]:
    """Find places and addends of RELA, and addresses of RELR; its bitmaps are relative to them."""
    for section in image.sections:
        if not section.allocated or not section.has_bytes:
            continue
        if section.type == "SHT_RELA":
            table = image.view(section, RELA)
            rows = section.offset + np.arange(len(table), dtype=np.int64) * RELA.itemsize
            yield _inside(image, rows, low, high)
            yield rows[table["info"] & np.uint64(0xFFFFFFFF) == R_AARCH64_RELATIVE] + _R_ADDEND
        elif section.name == ".relr.dyn":
            even = np.flatnonzero(image.view(section, "<u8") & np.uint64(1) == 0)
            yield section.offset + even.astype(np.int64) * 8


def _inside(image: ElfImage, offsets: I64, low: int, high: int) -> I64:
    """Keep the offsets at which an address of the kernel stands; the one after its last byte counts."""
    values = image.words_at(offsets, 8)
    return offsets[(values >= np.uint64(low)) & (values <= np.uint64(high))]


def _near(offsets: I64) -> list[I64]:
    """Group ascending offsets that are read and written at once."""
    if not len(offsets):
        return []
    return np.split(offsets, np.flatnonzero(np.diff(offsets // _SPAN)) + 1)


def _read(fd: int, offsets: I64) -> tuple[int, bytearray]:
    """Read the bytes from the first of these words to the end of the last; with the offset of the first."""
    start = int(offsets[0])
    size = int(offsets[-1]) + 8 - start
    data = bytearray(os.pread(fd, size, start))
    if len(data) < size:
        raise OSError(errno.EIO, "became shorter while it was written")
    return start, data


def _write(fd: int, offset: int, data: bytearray) -> None:
    view = memoryview(data)
    while view:
        done = os.pwrite(fd, view, offset)
        view, offset = view[done:], offset + done
