"""Dynamic relocations that give mcount records their values: RELA and RELR.

RELA (System V gABI, "Relocation"): 24 bytes, the value of an R_AARCH64_RELATIVE is its addend.
RELR (``prologue.elf.relr``): only the address is in the table; the value stands in the slot itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.elf.image import ElfImage
from prologue.elf.relr import FILLER, SPAN, Relr, covered, parse_relr
from prologue.elf.sections import Section
from prologue.errors import InputError

RELA = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
R_AARCH64_RELATIVE: Final = 0x403
R_AARCH64_ABS64: Final = 0x101
RELA_NONE: Final = (0, 256)  # both numbers mean R_AARCH64_NONE (AAELF64, "Relocation codes")


class RelaEntries(NamedTuple):
    """RELA entries that touch a range, in file order; all arrays have shape (n,)."""

    targets: U64  # r_offset: the address that the loader writes
    types: U64
    addends: U64
    addend_offsets: I64  # file offset of each r_addend


def rela_in(image: ElfImage, start: int, stop: int) -> RelaEntries:
    """Collect the RELA entries (NONE excepted) whose 8 bytes overlap ``[start, stop)``.

    Raises:
        InputError: a table of odd size, or an entry that would write outside of the kernel.

    """
    none = np.zeros(0, np.uint64)
    parts = [RelaEntries(none, none, none, np.zeros(0, np.int64))]
    for section in relocation_sections(image, "RELA"):
        if section.size % RELA.itemsize or section.entsize not in (0, RELA.itemsize):
            raise InputError(f"{section.name} is not a table of 24-byte RELA entries", path=image.path)
        table = image.view(section, RELA)
        live = np.flatnonzero(relocates(table))
        _require_inside(image, section.name, table["offset"][live])
        hit = live[(table["offset"][live] + np.uint64(7) >= start) & (table["offset"][live] < stop)]
        parts.append(
            RelaEntries(
                table["offset"][hit],
                table["info"][hit] & np.uint64(0xFFFFFFFF),
                table["addend"][hit].astype(np.uint64),
                section.offset + hit.astype(np.int64) * RELA.itemsize + 16,
            )
        )
    return RelaEntries(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def relocates(table: np.ndarray) -> Bool:
    """Return which entries of a RELA table are not NONE."""
    types = table["info"] & np.uint64(0xFFFFFFFF)
    is_live: Bool = (types != RELA_NONE[0]) & (types != RELA_NONE[1])
    return is_live


def relocation_sections(image: ElfImage, kind: str) -> list[Section]:
    """Return the tables of that kind that are part of the running image and have bytes."""
    loaded = (s for s in image.sections if s.allocated and s.has_bytes)
    if kind == "RELA":
        return [s for s in loaded if s.type == "SHT_RELA"]
    return [s for s in loaded if s.name == ".relr.dyn" or s.type == "SHT_RELR"]


def relr_targets(image: ElfImage) -> U64:
    """Decode ``.relr.dyn`` into the addresses that it covers, shape (n,), in table order.

    Raises:
        InputError: bits before any address, or an address outside of the kernel.

    """
    table = _read_relr(image)
    targets = np.concatenate([table.addresses, covered(table.bases, table.bitmaps)])
    _require_inside(image, ".relr.dyn", targets)
    return targets


def relr_in(image: ElfImage, start: int, stop: int) -> U64:
    """Return the addresses in ``[start, stop)`` that ``.relr.dyn`` covers; errors as ``relr_targets``.

    Bitmaps that reach neither into that range nor out of the kernel are left undecoded: most of a kernel's are.
    """
    table = _read_relr(image)
    low, high = _extent(image)
    ends = table.bases + np.uint64(SPAN)
    wanted = (ends > start) & (table.bases < stop)
    wanted |= (table.bases < low) | (ends > high) | (ends < table.bases)
    targets = np.concatenate([table.addresses, covered(table.bases[wanted], table.bitmaps[wanted])])
    _require_inside(image, ".relr.dyn", targets)
    return targets[(targets >= start) & (targets < stop)]


def relr_section(image: ElfImage) -> Section | None:
    """Return the section of RELR relocations.

    Raises:
        InputError: it is no table of words, or begins with a bitmap.

    """
    section = next(iter(relocation_sections(image, "RELR")), None)
    if section is None:
        return None
    if section.size % 8:
        raise InputError(".relr.dyn is not a table of 8-byte words", path=image.path)
    words = image.view(section, "<u8")
    addresses = np.flatnonzero(words & np.uint64(1) == 0)
    head = words[: int(addresses[0]) if len(addresses) else len(words)]
    if (head != FILLER).any():
        strange = int(head[head != FILLER][0])
        raise InputError(f".relr.dyn begins with a bitmap ({strange:#x}), not an address", path=image.path)
    return section


def _read_relr(image: ElfImage) -> Relr:
    section = relr_section(image)
    return parse_relr(image.view(section, "<u8") if section else np.zeros(0, np.uint64))


def relocated(image: ElfImage) -> tuple[U64, U64]:
    """Return every place that a RELATIVE, ABS64 or RELR relocation fills in, and the link-time address it gets.

    Returns:
        Addresses of the places and their values, each of shape (n,), in table order.

    """
    places, values = [], []
    for section in relocation_sections(image, "RELA"):
        table = image.view(section, RELA)
        types = table["info"] & np.uint64(0xFFFFFFFF)
        relative, absolute = np.flatnonzero(types == R_AARCH64_RELATIVE), np.flatnonzero(types == R_AARCH64_ABS64)
        places += [table["offset"][relative], table["offset"][absolute]]
        addends = table["addend"][absolute].astype(np.uint64)
        values += [
            table["addend"][relative].astype(np.uint64),
            addends + _symbol_values(image, section.link, (table["info"][absolute] >> np.uint64(32)).astype(np.int64)),
        ]
    targets = relr_targets(image)
    offsets = image.offsets(targets)
    places.append(targets[offsets >= 0])
    values.append(image.words_at(offsets[offsets >= 0], 8))
    return np.concatenate(places), np.concatenate(values)


def _symbol_values(image: ElfImage, link: int, index: I64) -> U64:
    """Return the values of dynamic symbols (Elf64_Sym, 24 bytes, value at 8); 0 for those that do not exist."""
    if not len(index) or not 0 < link < len(image.sections):
        return np.zeros(len(index), np.uint64)
    values = np.append(image.view(image.sections[link], "<u8")[1::3], np.uint64(0))
    return values[np.minimum(index, len(values) - 1)]


def _extent(image: ElfImage) -> tuple[int, int]:
    """Return the kernel's first address and the one after its last; 0 and 0 if it has nothing."""
    sections = [s for s in image.sections if s.allocated and s.size]
    return min((s.addr for s in sections), default=0), max((s.addr + s.size for s in sections), default=0)


def _require_inside(image: ElfImage, table: str, targets: U64) -> None:
    low, high = _extent(image)
    outside = targets[(targets < low) | (targets > np.uint64(max(high - 8, 0)))]
    if len(outside):
        raise InputError(
            f"{table} relocates {int(outside[0]):#x}, outside of the kernel ({low:#x}-{high:#x})",
            path=image.path,
        )
