"""The mcount records: where they are, what they hold, where each value lives.

The kernel's linker script (``include/asm-generic/vmlinux.lds.h``, MCOUNT_REC) collects every
``__patchable_function_entries`` section between ``__start_mcount_loc`` and ``__stop_mcount_loc``: 8-byte
addresses. Where a record's value lives depends on the link: in the addend of a RELA entry, in the slot with a
RELR bitmap over it, or in the slot alone.

A kernel with version 2 of the marker takes other records once it is processed (docs/kernel-contract.md): in the form
*offsets* the table holds 32-bit distances from ``_text``, and nothing relocates it; in the form *plain* it holds sorted
addresses. ``kernel/offset_table.py`` reads the offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.elf.dynrelocs import R_AARCH64_RELATIVE, rela_in, relr_in
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import InputError

START: Final = "__start_mcount_loc"
STOP: Final = "__stop_mcount_loc"

Encoding = Literal["RELA unapplied", "RELA applied", "RELR", "static", "ABS64", "none"]
RecordForm = Literal["addresses", "offsets", "plain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """``[start, stop)`` of the record table, or ``problem`` that makes it unusable (PL101)."""

    start: int = 0
    stop: int = 0
    file_offset: int = -1
    problem: str = ""
    vaddr: int = 0  # where the problem is, 0 if nowhere


def find_bounds(image: ElfImage, symbols: Symbols) -> Bounds | None:
    """Find the record table; None if the kernel has none at all (no dynamic ftrace).

    Raises:
        InputError: its symbols are gone, without which a kernel that has ``ftrace_init`` cannot be linked.

    """
    start, stop, init = (symbols.find(name) for name in (START, STOP, "ftrace_init"))
    if start is None and stop is None and init is None:
        return None
    if start is None or stop is None:
        raise InputError(
            f"stripped in part: the symbol {START if start is None else STOP} is gone, which a kernel with dynamic "
            "ftrace has: give the vmlinux as it was linked",
            path=image.path,
        )
    low, high = start.vaddr, stop.vaddr
    if high < low:
        return Bounds(problem=f"{STOP} ({high:#x}) is below {START} ({low:#x})", vaddr=high)
    if low % 8 or (high - low) % 8:
        return Bounds(problem=f"the table {low:#x}-{high:#x} is not made of aligned 8-byte records", vaddr=low)
    if low == high:
        return Bounds(start=low, stop=high, file_offset=0)
    if image.read_at(low, high - low) is None:
        return Bounds(problem=f"the table {low:#x}-{high:#x} does not lie in one section of the file", vaddr=low)
    return Bounds(start=low, stop=high, file_offset=int(image.offsets(np.array([low], np.uint64))[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """All records in table order; every array has shape (n,).

    In the form "offsets" these are as many as the marker counts, 4 bytes each; the encoding is what the linker gave.
    """

    encoding: Encoding
    vaddrs: U64  # address of each slot
    slots: U64  # what stands in the table
    values: U64  # what the kernel will see at link-time addresses: addend or slot
    homes: I64  # file offset of the 8 bytes that hold the value
    rela: Bool  # an R_AARCH64_RELATIVE gives this value
    relr: Bool  # RELR covers this slot
    rela_count: I64  # how many RELA entries touch this slot
    bad_types: tuple[tuple[int, int], ...] = ()  # (slot address, type) of relocations that must not be here
    misaligned: tuple[int, ...] = ()  # addresses of relocations across two slots
    form: RecordForm = "addresses"  # as linked; the others are those of processed kernels, marker version 2

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def nonzero(self) -> Bool:
        """Mask of the records that are not zero; the linker and sorttable leave zeros that the kernel skips."""
        is_nonzero: Bool = self.values != 0
        return is_nonzero


def read_records(image: ElfImage, bounds: Bounds) -> Records:
    """Read every record of a table whose bounds are sound.

    Raises:
        InputError: a damaged RELA or RELR table.

    """
    count = (bounds.stop - bounds.start) // 8
    slots = np.frombuffer(image.read(bounds.file_offset, count * 8), "<u8")
    entries = rela_in(image, bounds.start, bounds.stop)
    covered = relr_in(image, bounds.start - 7, bounds.stop)  # addresses need not be multiples of 8
    across = covered % np.uint64(8) != 0
    relr = np.zeros(count, np.bool_)
    relr[((covered[~across] - np.uint64(bounds.start)) >> np.uint64(3)).astype(np.int64)] = True

    aligned = entries.targets % np.uint64(8) == 0
    index = ((entries.targets - np.uint64(bounds.start)) >> np.uint64(3)).astype(np.int64)
    relative = aligned & (entries.types == R_AARCH64_RELATIVE)
    wrong = aligned & ~relative
    rela_count = np.bincount(index[aligned], minlength=count)
    values, homes = slots.copy(), bounds.file_offset + np.arange(count, dtype=np.int64) * 8
    values[index[relative]] = entries.addends[relative]
    homes[index[relative]] = entries.addend_offsets[relative]
    rela = np.zeros(count, np.bool_)
    rela[index[relative]] = True
    return Records(
        encoding=_encoding(slots, values, rela, relr),
        vaddrs=np.uint64(bounds.start) + np.arange(count, dtype=np.uint64) * np.uint64(8),
        slots=slots,
        values=values,
        homes=homes,
        rela=rela,
        relr=relr,
        rela_count=rela_count,
        bad_types=tuple(zip(entries.targets[wrong].tolist(), entries.types[wrong].tolist(), strict=True)),
        misaligned=(*entries.targets[~aligned].tolist(), *covered[across].tolist()),
    )


def _encoding(slots: U64, values: U64, rela: Bool, relr: Bool) -> Encoding:
    if not len(slots):
        return "none"
    if rela.any():
        return "RELA applied" if slots[rela & (values != 0)].any() else "RELA unapplied"
    return "RELR" if relr.any() else "static"
