"""Read-only data of a kernel: what was linked, relocated by the slide, or a word that somebody wrote.

Between ``__start_rodata`` and ``__end_rodata`` (include/asm-generic/vmlinux.lds.h, 5.10-7.3) nothing is written after
boot, and before it only two things: what is read-only after init, where variables get their values, and alternatives of
the vDSO, whose image lies there (``apply_alternatives_vdso``, arch/arm64/kernel/alternative.c).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import U64, runs_of
from prologue.elf.dynrelocs import relocated
from prologue.elf.image import ElfImage
from prologue.elf.sections import Section
from prologue.errors import InputError
from prologue.kernel.tables import ALTERNATIVE
from prologue.live.hooks.inventory import Inventory
from prologue.live.memory.ranges import KERNEL_LOWEST, TOP
from prologue.live.structs.objects import NotKnownError, raise_all
from prologue.rules.base import Hit
from prologue.words import counted

# Kernels with kCFI have static calls, whose literals lie among read-only data and have no symbols (arch/arm64, 7.2).
_STATIC_CALLS: Final = "arch_static_call_transform"


def changed_data(inventory: Inventory) -> Iterator[Hit]:
    """Yield every word of 64 bits that is not as linked, and that no mechanism explains; neighbours are one.

    Raises:
        NotKnownError: the vmlinux does not say where read-only data are, or memory lacks some.

    """
    kernel = inventory.kernel
    start, end = _between(inventory, "__start_rodata", "__end_rodata")
    after_init = range(*_between(inventory, "__start_ro_after_init", "__end_ro_after_init"))
    places, values = relocated(kernel.image)
    values = values + np.uint64(kernel.slide & TOP)
    lacking: list[NotKnownError] = []
    literals = 0
    for section in kernel.image.sections:
        overlaps = section.addr < end and section.addr + section.size > start
        if section.allocated and section.has_bytes and not section.executable and overlaps:
            try:
                live, linked = _words(inventory, section, places, values)
            except NotKnownError as error:
                lacking.append(error)
                continue
            vaddrs = np.uint64(section.addr) + np.arange(len(live), dtype=np.uint64) * np.uint64(8)
            differ = (live != linked) & (vaddrs >= np.uint64(start)) & (vaddrs < np.uint64(end))
            differ &= (vaddrs < np.uint64(after_init.start)) | (vaddrs >= np.uint64(after_init.stop))
            differ &= ~np.isin(vaddrs, _of_vdso(inventory, section, live))
            at = np.flatnonzero(differ)
            if kernel.symbols.find(_STATIC_CALLS) is not None:
                maybe = np.array([_is_owned(inventory, live[k], linked[k]) for k in at.tolist()], np.bool_)
                literals += int(maybe.sum())
                at = at[~maybe]
            for run in runs_of(at):
                yield _changed(inventory, int(vaddrs[run[0]]), int(live[run[0]]), int(linked[run[0]]), len(run))
    try:
        yield from _pointers_after_init(inventory, after_init, places, values)
    except NotKnownError as error:
        lacking.append(error)
    if literals:
        called = f"{counted(literals, 'word')} that static calls may have set, from one function to another"
        lacking.append(NotKnownError(called))
    raise_all(lacking)


def _is_owned(inventory: Inventory, live: np.uint64, linked: np.uint64) -> bool:
    """Return whether a pointer to a function became one to another function that has an owner, or may have one."""
    owners = inventory.owners
    return (owners.of(int(live)) is not None or not owners.complete) and owners.of(int(linked)) is not None


def _between(inventory: Inventory, low: str, high: str) -> tuple[int, int]:
    """Return link-time addresses of two symbols."""
    bounds = [inventory.kernel.symbols.find(name) for name in (low, high)]
    if bounds[0] is None or bounds[1] is None:
        raise NotKnownError(f"this vmlinux has no {low} and {high}")
    return bounds[0].vaddr, bounds[1].vaddr


def _words(inventory: Inventory, section: Section, places: U64, values: U64) -> tuple[U64, U64]:
    """Return words of a section in memory, and as they have to be; a last part of a word is padded with zeros."""
    size, start = section.size, np.uint64(section.addr)
    data = bytearray(inventory.kernel.image.data(section))
    mine = np.flatnonzero((places >= start) & (places + np.uint64(8) <= start + np.uint64(size)))
    view = memoryview(data)
    for place, value in zip((places[mine] - start).tolist(), values[mine].tolist(), strict=True):
        view[place : place + 8] = value.to_bytes(8, "little")
    live = inventory.objects.read(section.addr + inventory.kernel.slide & TOP, size)
    padding = bytes(-size % 8)
    return np.frombuffer(live + padding, "<u8"), np.frombuffer(bytes(data) + padding, "<u8")


def _changed(inventory: Inventory, vaddr: int, live: int, linked: int, count: int) -> Hit:
    owners = inventory.owners
    where = "" if owners.of(live) is not None else ", which has no owner"
    leads = f" ({owners.name(live)}{where})" if live >= KERNEL_LOWEST and owners.complete else ""
    was = f" ({owners.name(linked)})" if linked >= KERNEL_LOWEST else ""
    more = f", and {counted(count - 1, 'word')} after it" if count > 1 else ""
    message = f"holds {live:#x}{leads}, linked {linked:#x}{was}{more}: nothing writes there after boot"
    return Hit(vaddr + inventory.kernel.slide & TOP, message, (live,), (linked,))


def _pointers_after_init(inventory: Inventory, where: range, places: U64, values: U64) -> Iterator[Hit]:
    """Yield pointers to functions that are read-only after init: boot may have chosen others, of an owner."""
    kernel, owners = inventory.kernel, inventory.owners
    if not owners.complete:
        return
    if not len(places):
        raise NotKnownError("no relocation says which data that are read-only after init are pointers")
    slide = np.uint64(kernel.slide & TOP)
    mine = (places >= np.uint64(where.start)) & (places < np.uint64(where.stop))
    mine &= kernel.live_text.in_kept_text(values - slide)
    for place, value in zip(places[mine].tolist(), values[mine].tolist(), strict=True):
        vaddr = place + kernel.slide & TOP
        live = inventory.objects.number(vaddr)
        if live not in (0, value) and owners.of(live) is None:
            name = owners.name(live)
            message = f"a pointer to {owners.name(value)} when linked, now {name}, which has no owner"
            yield Hit(vaddr, message, (live,), (value,))


def _of_vdso(inventory: Inventory, section: Section, live: U64) -> U64:
    """Return addresses of words of the vDSO's image that differ by alternatives alone: each half is either."""
    allowed: list[int] = []
    for name in ("vdso", "vdso32"):
        start, end = (inventory.kernel.symbols.find(f"{name}_{edge}") for edge in ("start", "end"))
        if start is None or end is None or not section.addr <= start.vaddr < section.addr + section.size:
            continue
        data = inventory.kernel.image.read_at(start.vaddr, end.vaddr - start.vaddr)
        runs = live.tobytes()[start.vaddr - section.addr :][: end.vaddr - start.vaddr]
        became = set(_alternatives(inventory, data or b"", runs))
        allowed += [start.vaddr + place for place in explained_words(became, data or b"", runs)]
    return np.array(sorted(allowed), np.uint64)


def explained_words(became: set[int], linked: bytes, live: bytes) -> list[int]:
    """Return offsets of words of 64 bits of which each half is as linked, or an instruction that ``became`` another."""
    places = {place & ~7 for place in became}
    return [
        place
        for place in sorted(places)
        if all(at in became or live[at : at + 4] == linked[at : at + 4] for at in (place, place + 4))
    ]


def _alternatives(inventory: Inventory, data: bytes, runs: bytes) -> Iterator[int]:
    """Yield offsets of instructions of a vDSO that became their alternatives."""
    try:
        table = ElfImage(inventory.kernel.path, data).section(".altinstructions")
    except InputError:
        return
    if table is None:
        return
    count = table.size // ALTERNATIVE.itemsize
    entries = np.frombuffer(data, ALTERNATIVE, count, table.offset)
    for k, (orig, alt, _, size, _) in enumerate(entries.tolist()):
        field = table.offset + k * ALTERNATIVE.itemsize
        first, other = field + orig, field + 4 + alt
        if all(runs[first + at : first + at + 4] in (data[first + at :][:4], data[other + at :][:4])
               for at in range(0, size, 4)):  # fmt: skip
            yield from (first + at for at in range(0, size, 4))
