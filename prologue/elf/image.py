"""An arm64 ELF file, checked and mapped: sections, segments, and bytes by virtual address.

Everything in the headers is checked here before anybody relies on it, because a header that points past the end of a
truncated file must be a clear error and not a wrong byte in a kernel.

A module (``ET_REL``) has no addresses: every allocated section would begin at 0. It gets made-up ones here, one
section after the other, so that the same questions can be asked of it as of a vmlinux; they are never shown.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64, Bool
from prologue.elf.files import open_regular
from prologue.elf.identify import identify
from prologue.elf.sections import (
    EHDR,
    PHDR,
    PN_XNUM,
    SECTION_TYPES,
    SHDR,
    SHN_XINDEX,
    Section,
    SectionMap,
    require_bytes,
)
from prologue.errors import InputError

U8 = npt.NDArray[np.uint8]

SHF_COMPRESSED: Final = 1 << 11
_ET_REL, _ET_DYN = 1, 3
_PT_LOAD: Final = 1
_CHUNK: Final = 1 << 20  # bytes compared at once

# Where a module's sections are laid out: not at 0, which means "no record", and far from each other, so that no
# distance within one section leads into another by accident.
_MODULE_BASE: Final = 1 << 24
_MODULE_GAP: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A PT_LOAD program header."""

    offset: int
    vaddr: int
    paddr: int
    filesz: int
    memsz: int


class ElfImage:
    """A read-only view of one arm64 ELF file.

    Raises:
        InputError: not a regular file, not a 64-bit little-endian AArch64 ELF, truncated, or inconsistent.

    """

    def __init__(self, path: Path, content: bytes | mmap.mmap | None = None) -> None:
        """Map the file at ``path``; or take ``content`` for it, of a file that is stored compressed."""
        self.path = path
        self.is_whole_file = content is None
        if content is None:
            with open_regular(path) as (fd, _):
                content = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        self._map = content
        self.size = len(self._map)
        kind = identify(self._map[:4096], self.size)
        if not kind.is_arm64_elf:
            raise InputError(f"{kind.description}{kind.advice}", path=path)
        self._parse()
        require_bytes(self.sections, path)
        self._check_layout()
        self.text_sections = tuple(s for s in self.sections if s.is_text)
        allocated = [s for s in self.sections if s.allocated and s.type != "SHT_NULL"]
        self._allocated = SectionMap(allocated)
        self._backed = SectionMap(s for s in allocated if s.has_bytes)
        self._by_name: dict[str, Section] = {}
        for section in self.sections:
            self._by_name.setdefault(section.name, section)

    def _parse(self) -> None:
        header = EHDR.unpack_from(self._map)
        self.relocatable: bool = header[1] == _ET_REL  # a module, whose addresses are made up
        self.is_shared: bool = header[1] == _ET_DYN
        phoff, shoff, phentsize, phnum, shentsize, count, strndx = (header[k] for k in (5, 6, 9, 10, 11, 12, 13))
        if not count or phnum == PN_XNUM or strndx == SHN_XINDEX:
            _require_room(self, "section header table", shoff, SHDR.size)
            first = SHDR.unpack_from(self._map, shoff)  # has what does not fit into the header
            count, phnum = count or first[5], first[7] if phnum == PN_XNUM else phnum
            strndx = first[6] if strndx == SHN_XINDEX else strndx
        if not shoff or not count:
            what = "module" if self.relocatable else "vmlinux"
            raise InputError(f"no section headers: this needs the unstripped {what}", path=self.path)
        _require_room(self, "section header table", shoff, count * shentsize)
        if shentsize != SHDR.size:
            raise InputError(f"section headers of {shentsize} bytes, expected {SHDR.size}", path=self.path)
        _require_room(self, "program header table", phoff, phnum * phentsize)
        if phnum and phentsize < PHDR.size:
            raise InputError(f"damaged ELF headers (e_phentsize is {phentsize}, too small)", path=self.path)
        raw = list(SHDR.iter_unpack(self._map[shoff : shoff + count * SHDR.size]))
        names = self._section_names(raw, strndx)
        sections = tuple(
            Section(
                index=index, name=name, type=SECTION_TYPES.get(kind, str(kind)), flags=flags, addr=addr, offset=offset,
                size=size, link=link, info=info, entsize=entsize,
            )
            for index, (name, (_, kind, flags, addr, offset, size, link, info, _, entsize)) in enumerate(
                zip(names, raw, strict=True)
            )
        )  # fmt: skip
        self.sections = _laid_out(sections, (row[8] for row in raw)) if self.relocatable else sections
        segments = (PHDR.unpack_from(self._map, phoff + k * phentsize) for k in range(phnum))
        self.segments = tuple(
            Segment(offset=offset, vaddr=vaddr, paddr=paddr, filesz=filesz, memsz=memsz)
            for kind, _, offset, vaddr, paddr, filesz, memsz, _ in segments
            if kind == _PT_LOAD
        )

    def _section_names(self, raw: list[tuple[int, ...]], strndx: int) -> list[str]:
        if strndx >= len(raw):
            raise InputError(f"section name table index {strndx} of {len(raw)} sections", path=self.path)
        start, size = raw[strndx][4:6]
        _require_room(self, "section name table", start, size)
        table = self._map[start : start + size]
        names = []
        for index, (offset, *_) in enumerate(raw):
            end = table.find(b"\0", offset)
            if offset > size or end < 0:
                raise InputError(f"name of section {index} lies outside the name table", path=self.path)
            names.append(table[offset:end].decode("ascii", "backslashreplace"))
        return names

    def _check_layout(self) -> None:
        """Check the bounds of every section, and that no two share bytes or addresses."""
        backed = [s for s in self.sections if s.has_bytes]
        for section in backed:
            _require_room(self, f"section {section.name}", section.offset, section.size)
            if not self.relocatable and section.is_text and (section.offset | section.addr) % 4:
                raise InputError(f"section {section.name} is not aligned to instructions", path=self.path)
        for section in self.sections:
            if section.allocated and section.addr + section.size >= 1 << 64:
                raise InputError(f"section {section.name} ends after the last address: damaged", path=self.path)
        for segment in (segment for segment in self.segments if segment.filesz):
            _require_room(self, f"segment at {segment.vaddr:#x}", segment.offset, segment.filesz)
        self._check_overlap(backed, "bytes of the file", lambda section: section.offset)
        if not self.relocatable:
            allocated = [s for s in self.sections if s.allocated and s.size and s.type != "SHT_NULL"]
            self._check_overlap(allocated, "addresses", lambda section: section.addr)

    def check_segments(self) -> None:
        """Check that program headers load a kernel's sections where their own headers say: its Image is made by both.

        An empty one loads nothing: where GNU objcopy has removed all sections of a segment, its header stays, with an
        address of 0 (``.modinfo`` of a vmlinux, scripts/Makefile.vmlinux, 7.2).

        Raises:
            InputError: they do not.

        """
        sections = [s for s in self.sections if s.allocated and s.has_bytes]
        segments = [segment for segment in self.segments if segment.filesz]
        moves = {segment.paddr - segment.vaddr for segment in segments}
        if len(moves) > 1:
            raise InputError("load addresses of segments do not differ as their addresses do: damaged", path=self.path)
        for segment in segments:
            for section in sections:
                address, offset = section.addr - segment.vaddr, section.offset - segment.offset
                inside = 0 <= address < segment.filesz or 0 <= offset < segment.filesz
                if inside and address != offset:
                    raise InputError(
                        f"section {section.name} and the segment at {segment.vaddr:#x} disagree on where it is",
                        path=self.path,
                    )

    def _check_overlap(self, sections: list[Section], noun: str, start: Callable[[Section], int]) -> None:
        ordered = sorted(sections, key=start)
        for low, high in pairwise(ordered):
            if start(low) + low.size > start(high):
                raise InputError(f"sections {low.name} and {high.name} share {noun}", path=self.path)

    @property
    def content(self) -> bytes | mmap.mmap:
        """The whole file, decompressed."""
        return self._map

    def drop_pages(self, offset: int, size: int) -> None:
        """Drop the pages of these bytes of the mapped file from memory (MADV_DONTNEED); they are read again on access.

        The first one is dropped whole: arm64 has pages of 4, 16 and 64 KiB, so no caller knows where it begins. Of
        other content nothing is dropped: changes of a copy would be lost.
        """
        if self.is_whole_file and isinstance(self._map, mmap.mmap):
            start = offset - offset % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_DONTNEED, start, min(offset + size, self.size) - start)

    def section(self, name: str) -> Section | None:
        """Return the first section of that name."""
        return self._by_name.get(name)

    def section_at(self, vaddr: int) -> Section | None:
        """Return the allocated section whose addresses contain ``vaddr``."""
        return self._allocated.find(vaddr)

    def data(self, section: Section) -> bytes:
        """Return the section's bytes, copied."""
        return self._map[section.offset : section.offset + section.size] if section.has_bytes else b""

    def view(self, section: Section, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """View the section's whole elements as a read-only array over the mapped file; nothing is copied."""
        count = section.size // np.dtype(dtype).itemsize if section.has_bytes else 0
        return np.frombuffer(self._map, dtype, count, section.offset if count else 0)

    def read(self, offset: int, size: int) -> bytes:
        """Read bytes of the file by offset; short at the end of the file."""
        return self._map[offset : offset + size]

    def words_at(self, offsets: I64, width: int) -> U64:
        """Read little-endian words of ``width`` (4 or 8) bytes; ``offsets`` (shape (n,)) are inside the file."""
        words: U64 = unaligned(self._map, width)[offsets].astype(np.uint64, copy=False)
        return words

    def find(self, needle: bytes, section: Section, start: int = 0) -> int:
        """Find ``needle`` in the section's bytes, from ``start`` on: its offset, or -1."""
        at = self._map.find(needle, section.offset + start, section.offset + section.size)
        return at - section.offset if at >= 0 else -1

    def read_at(self, vaddr: int, size: int) -> bytes | None:
        """Read bytes by address; None unless all of them are in one file-backed section."""
        section = self._backed.find(vaddr)
        if section is None or vaddr + size > section.addr + section.size:
            return None
        offset = section.offset + vaddr - section.addr
        return self._map[offset : offset + size]

    def offsets(self, vaddrs: U64) -> I64:
        """Return the file offset of each address, -1 if no file-backed section has it; shape of ``vaddrs``."""
        sections = self._backed.sections
        starts = np.array([s.addr for s in sections] or [0], np.uint64)
        offsets = np.array([s.offset for s in sections] or [0], np.int64)
        index = self._backed.indices(vaddrs)
        return np.where(index >= 0, offsets[index] + (vaddrs - starts[index]).astype(np.int64), np.int64(-1))

    @cached_property
    def text_map(self) -> SectionMap[Section]:
        """The executable sections, by address."""
        return SectionMap(self.text_sections)

    def in_text(self, vaddrs: U64) -> Bool:
        """Return which addresses are 4-aligned and in executable, allocated, file-backed sections."""
        aligned: Bool = vaddrs & np.uint64(3) == 0
        return (self.text_map.indices(vaddrs) >= 0) & aligned

    def words(self, vaddrs: U64) -> U32:
        """Return the instruction word at each address; 0 (UDF #0, never compiled) if there is no text."""
        return self.words_around(vaddrs, (0,))[0]

    def words_around(self, vaddrs: U64, distances: Iterable[int]) -> dict[int, U32]:
        """Return, by distance in instructions, the word that far from each address; 0 outside of its section."""
        return gather_words(self.text_map, lambda section: self.view(section, "<u4"), vaddrs, distances)


def gather_words(
    sections: SectionMap[Section], view: Callable[[Section], U32], vaddrs: U64, distances: Iterable[int]
) -> dict[int, U32]:
    """Return, by distance in instructions, the word that far from each address; 0 outside of its section.

    ``view`` gives the words of a section, shape (size // 4,).
    """
    result = {distance: np.zeros(vaddrs.shape, np.uint32) for distance in distances}
    whole = vaddrs & np.uint64(3) == 0
    if not whole.all():
        for distance, words in gather_words(sections, view, vaddrs[whole], distances).items():
            result[distance][whole] = words
        return result
    for section, place in sections.split(vaddrs):
        words = view(section)
        if not len(words):
            continue
        index = (vaddrs[place] - np.uint64(section.addr) >> np.uint64(2)).view(np.int64)
        low, high = int(index.min()), int(index.max())
        for distance, column in result.items():
            at = index + distance
            if low + distance >= 0 and high + max(distance, 0) < len(words):
                column[place] = words[at]
                continue
            out = (at < 0) | (at >= len(words)) | (index >= len(words))  # the last: bytes after the last whole word
            column[place] = np.where(out, 0, words[np.where(out, 0, at)])
    return result


def differing_bytes(ours: U8, theirs: U8) -> I64:
    """Return the ascending indices of the bytes that differ; both have shape (n,)."""
    parts = [np.zeros(0, np.int64)]
    for start in range(0, len(ours), _CHUNK):
        part = slice(start, start + _CHUNK)
        parts.append(np.flatnonzero(ours[part] != theirs[part]) + start)
    return np.concatenate(parts)


def differing_files(before: ElfImage, after: ElfImage, size: int) -> I64:
    """Return the ascending file offsets of the bytes that differ among the first ``size`` of two files.

    Pages of a mapped file count as this process's memory once they were looked at, so they are dropped at once.
    """
    ours, theirs = (np.frombuffer(image.content, np.uint8, size) for image in (before, after))
    parts = [np.zeros(0, np.int64)]
    for start in range(0, size, _CHUNK):
        part = slice(start, start + _CHUNK)
        parts.append(differing_bytes(ours[part], theirs[part]) + start)
        before.drop_pages(start, _CHUNK)
        after.drop_pages(start, _CHUNK)
    return np.concatenate(parts)


def unaligned(data: bytes | bytearray | memoryview | mmap.mmap, width: int) -> npt.NDArray[Any]:
    """View every little-endian word of ``width`` (4 or 8) bytes, whatever its alignment: the k-th is at byte k.

    A view of shape (len - width + 1,), writable if the data are: a word is one look-up, not one for each byte.
    """
    return np.ndarray((max(len(data) - width + 1, 0),), f"<u{width}", data, 0, (1,))


def _laid_out(sections: tuple[Section, ...], alignments: Iterable[int]) -> tuple[Section, ...]:
    """Give a module's allocated sections addresses; what a file says of them is not to be trusted.

    (Linkers leave the offset inside the output section in ``sh_addr`` of some.) Text is aligned as ``sh_addralign``
    says, and no better: neither is it by the module loader.
    """
    result, addr = [], _MODULE_BASE
    for section, alignment in zip(sections, alignments, strict=True):
        if section.allocated:
            least = max(alignment, 4) % _MODULE_GAP & ~3 if section.executable else 0
            result.append(replace(section, addr=addr + least))
            addr += -(-section.size // _MODULE_GAP) * _MODULE_GAP + _MODULE_GAP
        else:
            result.append(replace(section, addr=0))
    return tuple(result)


def _require_room(image: ElfImage, noun: str, offset: int, size: int) -> None:
    if offset + size > image.size:
        raise InputError(
            f"{noun} ends at {offset + size:#x}, the file at {image.size:#x}: truncated or damaged",
            path=image.path,
        )
