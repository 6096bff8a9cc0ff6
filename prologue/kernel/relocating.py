"""Finds out whether a kernel relocates itself, and whether the relocations that it will read are those of the file.

With CONFIG_RELOCATABLE a vmlinux is linked as a shared object and moves itself before it runs C code: the loop takes
its tables from the linker script's symbols, and never looks at section headers or at a dynamic section.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.elf.dynrelocs import RELA, relocates, relocation_sections, relr_targets
from prologue.elf.image import ElfImage
from prologue.elf.sections import Section
from prologue.elf.symbols import Symbols

# Where the loop is: arch/arm64/kernel/head.S (5.5-6.8), arch/arm64/kernel/pi/relocate.c since.
_LOOPS: Final = ("__pi_relocate_kernel", "__relocate_kernel")
# First and last address of each table (6.1; 6.9 and later), or offset from the first address, and size (5.10).
_BOUNDS: Final = {
    "RELA": (("__pi_rela_start", "__pi_rela_end"), ("__rela_start", "__rela_end")),
    "RELR": (("__pi_relr_start", "__pi_relr_end"), ("__relr_start", "__relr_end")),
}
_OFFSETS: Final = {"RELA": ("__rela_offset", "__rela_size"), "RELR": ("__relr_offset", "__relr_size")}


def evidence(image: ElfImage, symbols: Symbols) -> tuple[str, ...]:
    """Say how this kernel is known to relocate itself; empty if nothing says so, and then it is a static link."""
    loops = tuple(name for name in _LOOPS if symbols.find(name) is not None)
    shared = ("it is linked as a shared object (ET_DYN)",) if image.is_shared else ()
    return (*shared, *(f"it has {name}" for name in loops[:1]))


def table_mismatches(image: ElfImage, symbols: Symbols) -> Iterator[tuple[int, str]]:
    """Compare the relocation sections with the kernel's symbols: address and message of each that is elsewhere."""
    base = min((s.addr for s in image.sections if s.allocated and s.size), default=0)
    for kind, bounds in _BOUNDS.items():
        sections = relocation_sections(image, kind)
        for low, high in bounds:
            if (start := symbols.find(low)) is not None and (stop := symbols.find(high)) is not None:
                yield from _compare(sections, kind, start.vaddr, stop.vaddr, f"{low} and {high}")
                break
        else:
            offset, size = (symbols.find(name) for name in _OFFSETS[kind])
            if offset is not None and size is not None:
                start_at = base + offset.vaddr
                yield from _compare(sections, kind, start_at, start_at + size.vaddr, " and ".join(_OFFSETS[kind]))


ROW: Final = np.dtype([("place", "<u8"), ("info", "<u8"), ("addend", "<i8")])  # a relocation; RELR has no more


def relocations_outside(image: ElfImage, table: range) -> np.ndarray:
    """Return every relocation outside of the table, sorted: of RELA all that is not NONE, of RELR the places."""
    parts = [np.zeros(0, ROW)]
    for section in relocation_sections(image, "RELA"):
        entries = image.view(section, RELA)
        parts.append(entries[relocates(entries)].astype(ROW))
    places = relr_targets(image)
    relr = np.zeros(len(places), ROW)
    relr["place"] = places
    rows = np.concatenate([*parts, relr])
    inside = (rows["place"] >= np.uint64(table.start)) & (rows["place"] < np.uint64(table.stop))
    return np.sort(rows[~inside])


def _compare(sections: list[Section], kind: str, start: int, stop: int, said_by: str) -> Iterator[tuple[int, str]]:
    have = sum(s.size for s in sections)
    inside = sum(s.size for s in sections if start <= s.addr and s.addr + s.size <= stop)
    if inside == have == stop - start:
        return
    if stop <= start:
        if have:
            yield sections[0].addr, f"{said_by} give an empty {kind} table, but {sections[0].name} is not"
        return
    names = ", ".join(s.name for s in sections) or f"no section of the file is a {kind} table"
    where = f"{names}: {have:,} bytes" if sections else names
    yield start, f"{said_by} give {stop - start:,} bytes of {kind} at {start:#x}, but {where}"
