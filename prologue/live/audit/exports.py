"""Symbols that a kernel exports to modules: by name in its tables, as the loader searches them.

``find_symbol`` (kernel/module.c, 5.10; kernel/module/main.c, 6.1-7.3) goes through ``__ksymtab``, then
``__ksymtab_gpl`` if there is one. A name may be exported twice: Debian's 5.10 has ``memset`` of the kernel and of nVHE,
and modules get the one on which the binary search comes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from prologue.elf.symbols import SHN_UNDEF, Symbols
from prologue.kernel.kernel import Kernel

# Bounding symbols; struct kernel_symbol: s32 value, name and namespace, each relative to itself (5.10-7.3, with
# CONFIG_HAVE_ARCH_PREL32_RELOCATIONS).
_TABLES: Final = (("__start___ksymtab", "__stop___ksymtab"), ("__start___ksymtab_gpl", "__stop___ksymtab_gpl"))
_ENTRY: Final = 12


class Exports:
    """The exports of a vmlinux, in the order of its tables."""

    def __init__(self, kernel: Kernel) -> None:
        self._tables = [_read(kernel, low, high) for low, high in _TABLES]

    def find(self, name: str) -> int | None:
        """Return the link-time address that a module gets for a name; None if the kernel does not export it."""
        key = name.encode()
        for names, values in self._tables:
            k = _bsearch(names, key)
            if k is not None:
                return values[k]
        return None


def global_places(kernel: Kernel, wanted: set[str], slide: int, exported: Mapping[str, int]) -> dict[str, int]:
    """Return the run-time addresses of symbols that modules want, by name.

    They are the kernel's exports, otherwise those that modules ``exported``, otherwise global symbols of the kernel.
    """
    exports, places = Exports(kernel), _global_symbols(kernel.symbols, wanted)
    own = {name: vaddr for name in wanted if (vaddr := exports.find(name)) is not None}
    globals_, own = ({name: vaddr + slide & (1 << 64) - 1 for name, vaddr in each.items()} for each in (places, own))
    return globals_ | dict(exported) | own


def _global_symbols(symbols: Symbols, wanted: set[str]) -> dict[str, int]:
    rows = np.flatnonzero((symbols.table["info"] >> 4 != 0) & (symbols.table["shndx"] != SHN_UNDEF))
    return {name: int(symbols.values[row]) for row in rows.tolist() if (name := symbols.name_of(row)) in wanted}


def _read(kernel: Kernel, low: str, high: str) -> tuple[list[bytes], list[int]]:
    """Read names and values of a table; none if it is not there, or if its names cannot be read."""
    start, stop = kernel.symbols.find(low), kernel.symbols.find(high)
    if start is None or stop is None or stop.vaddr - start.vaddr < _ENTRY:
        return [], []
    count = (stop.vaddr - start.vaddr) // _ENTRY
    fields = np.uint64(start.vaddr) + np.arange(count, dtype=np.uint64) * np.uint64(_ENTRY)
    at = kernel.relative32(fields + np.uint64(4))
    strings = kernel.image.section_at(int(at[0]))
    if strings is None or not strings.has_bytes:
        return [], []
    data, offsets = bytes(kernel.image.data(strings)), (at - np.uint64(strings.addr)).tolist()
    if max(offsets) >= len(data):
        return [], []
    return [data[k : data.find(b"\0", k)] for k in offsets], kernel.relative32(fields).tolist()


def _bsearch(names: list[bytes], key: bytes) -> int | None:
    """Return the entry at which ``bsearch`` (include/linux/bsearch.h) ends: of equal names not always the first."""
    base, count = 0, len(names)
    while count > 0:
        pivot = base + (count >> 1)
        if names[pivot] == key:
            return pivot
        if key > names[pivot]:
            base, count = pivot + 1, count - 1
        count >>= 1
    return None
