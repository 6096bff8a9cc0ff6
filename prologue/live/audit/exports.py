"""Symbols that a kernel exports to modules: by name in its tables, as the loader searches them.

``find_symbol`` (kernel/module.c, 5.10; kernel/module/main.c, 6.1-7.3) goes through ``__ksymtab``, then
``__ksymtab_gpl`` if there is one. A name may be exported twice: Debian's 5.10 has ``memset`` of the kernel and of nVHE,
and modules get the one on which the binary search comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from prologue.elf.symbols import SHN_UNDEF, Symbols
from prologue.kernel.kernel import Kernel
from prologue.live.system.module_files import ModuleFile

# Bounding symbols; struct kernel_symbol: s32 value, name and namespace, each relative to itself (5.10-7.3, with
# CONFIG_HAVE_ARCH_PREL32_RELOCATIONS).
_TABLES: Final = (("__start___ksymtab", "__stop___ksymtab"), ("__start___ksymtab_gpl", "__stop___ksymtab_gpl"))
_ENTRY_SIZE: Final = 12
_ENTRY: Final = "__ksymtab_"  # of an exported symbol's entry in a module, before its name


def symbols_of_others(kernel: Kernel, slide: int, files: Sequence[ModuleFile], wanted: set[str]) -> dict[str, int]:
    """Return the run-time addresses of symbols that modules want from others, by name.

    Of one name it is the kernel's export, otherwise a module's, otherwise another global symbol, of the kernel's first.
    """
    defined: dict[str, int] = {}
    exported: dict[str, int] = {}
    for file in files:
        symbols = Symbols(file.image)
        names = [symbols.name_of(row) for row in range(len(symbols.table))]
        entries = {name.removeprefix(_ENTRY) for name in names if name.startswith(_ENTRY)}
        places = {s.index: file.loaded.sections[s.name] for s in file.image.sections if s.name in file.loaded.sections}
        for name, entry in zip(names, symbols.table, strict=True):
            if entry["info"] >> 4 and int(entry["shndx"]) in places and name in wanted:
                defined[name] = places[int(entry["shndx"])] + int(entry["value"])
                exported |= {name: defined[name]} if name in entries else {}
    symbols, tables = kernel.symbols, [_read(kernel, low, high) for low, high in _TABLES]
    rows = np.flatnonzero((symbols.table["info"] >> 4 != 0) & (symbols.table["shndx"] != SHN_UNDEF))
    plain = {name: int(symbols.values[row]) for row in rows.tolist() if (name := symbols.name_of(row)) in wanted}
    own = {name: vaddr for name in wanted if (vaddr := _find(tables, name.encode())) is not None}
    plain, own = ({name: vaddr + slide & (1 << 64) - 1 for name, vaddr in each.items()} for each in (plain, own))
    return defined | plain | exported | own


def _read(kernel: Kernel, low: str, high: str) -> tuple[list[bytes], list[int]]:
    """Read names and values of a table; none if it is not there, or if its names cannot be read."""
    start, stop = kernel.symbols.find(low), kernel.symbols.find(high)
    if start is None or stop is None or stop.vaddr - start.vaddr < _ENTRY_SIZE:
        return [], []
    count = (stop.vaddr - start.vaddr) // _ENTRY_SIZE
    fields = np.uint64(start.vaddr) + np.arange(count, dtype=np.uint64) * np.uint64(_ENTRY_SIZE)
    at = kernel.relative32(fields + np.uint64(4))
    strings = kernel.image.section_at(int(at[0]))
    if strings is None or not strings.has_bytes:
        return [], []
    data, offsets = bytes(kernel.image.data(strings)), (at - np.uint64(strings.addr)).tolist()
    if max(offsets) >= len(data):
        return [], []
    return [data[k : data.find(b"\0", k)] for k in offsets], kernel.relative32(fields).tolist()


def _find(tables: Sequence[tuple[list[bytes], list[int]]], key: bytes) -> int | None:
    """Return the link-time address that a module gets for a name; None if the kernel does not export it.

    ``bsearch`` (include/linux/bsearch.h) does not always end at the first of equal names.
    """
    for names, values in tables:
        base, count = 0, len(names)
        while count > 0:
            pivot = base + (count >> 1)
            if names[pivot] == key:
                return values[pivot]
            if key > names[pivot]:
                base, count = pivot + 1, count - 1
            count >>= 1
    return None
