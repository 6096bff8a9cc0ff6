"""Binaries of processes: files with the build-id that the trace has, found as perf finds them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prologue.arrays import U64
from prologue.elf.image import ElfImage
from prologue.elf.notes import gnu_build_id, matches_perf
from prologue.elf.symbols import Symbol, Symbols
from prologue.errors import InputError, Location
from prologue.perf.address_spaces import FileMap


class UserBinary(NamedTuple):
    """A file that processes execute. ``is_checked``: its build-id is that of the trace, which may have none."""

    image: ElfImage
    symbols: Symbols
    is_checked: bool


class SectionNames(Symbols):
    """Names for a stripped binary: its sections of text, as objdump prints them."""

    def __init__(self, image: ElfImage) -> None:
        self._image = image

    @cached_property
    def place_starts(self) -> U64:
        """Addresses of the sections of text, ascending."""
        return np.array(sorted(section.addr for section in self._image.text_sections), np.uint64)

    def locate_all(self, vaddrs: Sequence[int]) -> list[Location]:
        """Describe addresses as offsets in their sections."""
        return [self._locate(vaddr) for vaddr in vaddrs]

    def _locate(self, vaddr: int) -> Location:
        section = self._image.section_at(vaddr)
        if section is None or not section.is_text:
            return Location(vaddr)
        return Location(vaddr, symbol=section.name, symbol_offset=vaddr - section.addr)

    def with_prefix(self, prefix: str) -> tuple[Symbol, ...]:
        """Return sections whose names begin with ``prefix``."""
        sections = self._image.text_sections
        return tuple(Symbol(each.name, each.addr, each.size) for each in sections if each.name.startswith(prefix))


class BinaryFiles:
    """The files of this machine that may be what ran.

    A file is below ``--symfs``, in perf's cache (``$PERF_BUILDID_DIR``, ``~/.debug``), or at its own path. Without a
    build-id in the trace only the first of these is taken, since a user named it.
    """

    def __init__(self, symfs: Path | None) -> None:
        self._symfs = symfs
        self._known: dict[tuple[str, str], UserBinary | str] = {}
        self._cache = Path(os.environ.get("PERF_BUILDID_DIR") or Path.home() / ".debug")

    def open(self, mapped: FileMap) -> UserBinary | str:
        """Return the binary of a map, or why there is none."""
        key = mapped.path, mapped.build_id
        if key not in self._known:
            self._known[key] = self._find(mapped) if mapped.is_file else "not a file"
        return self._known[key]

    def _find(self, mapped: FileMap) -> UserBinary | str:
        why = "" if mapped.build_id or self._symfs else "the trace has no build-id of it, see --symfs"
        for path in self._candidates(mapped):
            if not path.is_file():
                continue
            try:
                image = ElfImage(path)
                own = gnu_build_id(image)
                if not mapped.build_id or matches_perf(own, mapped.build_id):
                    return UserBinary(image, _symbols(image), is_checked=bool(mapped.build_id))
                why = why or f"{path} has build-id {own or 'none'}, {mapped.build_id} ran"
            except InputError as error:
                why = why or str(error)
        return why or "not on this machine, see --symfs"

    def _candidates(self, mapped: FileMap) -> Iterator[Path]:
        if self._symfs is not None:
            yield self._symfs / mapped.path.lstrip("/")
        if mapped.build_id:
            kept = self._cache / ".build-id" / mapped.build_id[:2] / mapped.build_id[2:]
            yield from (kept / "elf", kept)
            yield Path(mapped.path)


def _names_text(symbols: Symbols, image: ElfImage) -> bool:
    places = symbols.place_starts
    return any(
        bool(((places >= np.uint64(text.addr)) & (places < np.uint64(text.addr + text.size))).any())
        for text in image.text_sections
    )


def _symbols(image: ElfImage) -> Symbols:
    for kind in ("SHT_SYMTAB", "SHT_DYNSYM"):
        if any(section.type == kind and section.has_bytes for section in image.sections):
            symbols = Symbols(image, kind)
            if _names_text(symbols, image):  # a program's dynamic symbols are often imports alone
                return symbols
    return SectionNames(image)
