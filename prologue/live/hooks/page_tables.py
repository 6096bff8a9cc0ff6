"""The kernel's page tables: which memory is executable to the kernel, and where it lies.

Arm ARM DDI 0487, "VMSAv8-64 translation table format descriptors"; arch/arm64/include/asm/{pgtable-hwdef.h,memory.h}
(5.10-7.3). The linear map takes half of the kernel's addresses; since 5.13 its tables say at the top that nothing below
is executable (``PUD_TABLE_PXN`` and the like), and are not read further.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U64, Bool
from prologue.live.memory.base import KernelInfo
from prologue.live.memory.ranges import TOP
from prologue.live.structs.objects import NotKnownError, NotReadError, Objects

_VALID, _TABLE = np.uint64(1), np.uint64(2)
_PXN, _PXN_TABLE = np.uint64(1 << 53), np.uint64(1 << 59)
_READ_ONLY: Final = np.uint64(1 << 7)  # AP[2]
_LEAF: Final = 3  # the last level
_SHIFT_64K: Final = 16
_FEWEST_BITS, _MOST_ADDRESS_BITS = 36, 52  # arch/arm64/Kconfig, ARM64_VA_BITS
_MOST: Final = 1 << 20  # executable pages: more are damaged tables
_MOST_TABLES: Final = 1 << 12  # with those of the linear map: before 5.13, they are for 8 GiB


class ExecutablePages(NamedTuple):
    """Pages that the kernel may execute, ascending; each array has shape (n,).

    ``vaddrs`` are their run-time addresses, ``paddrs`` their physical ones, ``writable`` says which may be written.
    """

    vaddrs: U64
    paddrs: U64
    writable: Bool
    size: int  # bytes of a page


class _ManyTablesError(Exception):
    """There are more tables than are read."""


class _Entries(NamedTuple):
    """Pages under one table: offsets from where the table begins, as pages; physical addresses; writable or not."""

    offsets: U64
    paddrs: U64
    writable: Bool


_NONE: Final = _Entries(np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.bool_))


class PageTables:
    """Walks ``swapper_pg_dir``.

    Raises:
        NotKnownError: memory does not say how large pages and addresses are (VMCOREINFO), or where its tables are.

    """

    def __init__(self, objects: Objects, info: KernelInfo) -> None:
        numbers = info.numbers
        missing = [name for name in ("PAGESIZE", "VA_BITS", "TCR_EL1_T1SZ") if name not in numbers]
        if missing:
            raise NotKnownError(f"VMCOREINFO does not have {' and '.join(missing)}")
        self._objects = objects
        self._size = numbers["PAGESIZE"]
        if self._size not in (1 << 12, 1 << 14, 1 << 16):
            raise NotKnownError(f"pages of {self._size:,} bytes")
        self._shift = self._size.bit_length() - 1
        self._bits = self._shift - 3  # of an address that one level takes
        self.address_bits, self._linked_bits = 64 - numbers["TCR_EL1_T1SZ"], numbers["VA_BITS"]
        if not _FEWEST_BITS <= self.address_bits <= self._linked_bits <= _MOST_ADDRESS_BITS:
            raise NotKnownError(f"addresses of {self.address_bits} bits, of {self._linked_bits} at most")
        self._linear = (-(1 << self._linked_bits) - objects.variable("memstart_addr")) & TOP
        self._kept: dict[tuple[int, int], _Entries] = {}
        self.has_linear = True  # whether pages of the linear map are among those that ``executable`` returned

    @property
    def top(self) -> int:
        """The first level that is there: 0 if tables have four."""
        return _LEAF + 1 - -(-(self.address_bits - self._shift) // self._bits)

    def _entries(self, bits: int) -> int:
        """Count the entries that addresses of ``bits`` bits take in the top table."""
        return 1 << bits - self._shift - self._bits * (_LEAF - self.top)

    @property
    def _first_entry(self) -> int:
        """The first entry in use of the top table.

        With pages of 64 KiB, the table of a kernel for 52 bits is as long on a CPU that has 48, which uses its end
        (``TTBR1_BADDR_4852_OFFSET``, arch/arm64/include/asm/pgtable-hwdef.h). With smaller pages, levels are left out.
        """
        if self._shift < _SHIFT_64K:
            return 0
        return self._entries(self._linked_bits) - self._entries(self.address_bits)

    @property
    def linear_end(self) -> int:
        """Address after the linear map: ``_PAGE_END(VA_BITS_MIN)`` (arch/arm64/include/asm/memory.h, 6.12)."""
        fewest = self._linked_bits if self._linked_bits <= 48 else 47 if self._size == 1 << 14 else 48
        return -(1 << fewest - 1) & TOP

    def linear(self, paddr: int) -> int:
        """Return where the linear map has a physical address."""
        return (paddr + self._linear) & TOP

    def executable(self) -> ExecutablePages:
        """Return every executable page; without ``has_linear``, those beyond the linear map.

        Raises:
            NotKnownError: memory lacks some of the tables, or they do not have the kernel's own text.

        """
        start = -(1 << self.address_bits) & TOP
        root = self._objects.place("swapper_pg_dir")
        try:
            entries = self._under(root, self.top)
        except _ManyTablesError:
            self.has_linear = False
            entries = self._under(root, self.top, first=(self.linear_end - start) >> self._shift)
        order = np.argsort(entries.offsets, kind="stable")
        vaddrs = (entries.offsets[order] << np.uint64(self._shift)) + np.uint64(start)
        if self._objects.place("_stext") & -self._size not in vaddrs.tolist():
            raise NotReadError("the page tables that were read do not let the kernel execute its own text")
        return ExecutablePages(vaddrs, entries.paddrs[order], entries.writable[order], self._size)

    def _under(self, table: int, level: int, first: int = 0) -> _Entries:
        """Return pages under the table at a kernel address, from page ``first`` on; shared tables are read once."""
        key = (table, level)
        if key in self._kept and not first:
            return self._kept[key]
        if not first and self.has_linear and len(self._kept) > _MOST_TABLES:
            raise _ManyTablesError
        entries = np.frombuffer(self._objects.read(table, self._size), "<u8")
        if level == self.top:
            entries = entries[self._first_entry :][: self._entries(self.address_bits)]
        span = 1 << self._bits * (_LEAF - level)  # pages that one entry maps
        used = np.flatnonzero(entries & _VALID)
        used = used[used >= first // span]
        parts = [self._leaves(entries, used, level, span)]
        deeper = used[entries[used] & _TABLE != 0] if level < _LEAF else used[:0]
        for k in deeper.tolist():
            entry = entries[k]
            if not entry & _PXN_TABLE:
                below = self._under(self.linear(int(self._paddr(entry))), level + 1)
                parts.append(below._replace(offsets=below.offsets + np.uint64(k * span)))
            if sum(len(part.offsets) for part in parts) > _MOST:
                raise NotReadError(f"more than {_MOST:,} executable pages under the table at {table:#x}")
        pages = _Entries(*(np.concatenate(column) for column in zip(*parts, strict=True)))
        if not first:
            self._kept[key] = pages
        return pages

    def _leaves(
        self, entries: U64, used: np.ndarray[tuple[int], np.dtype[np.int64]], level: int, span: int
    ) -> _Entries:
        """Return executable pages and blocks of one table, a block as all of its pages."""
        is_page = entries[used] & _TABLE != 0
        mine = used[is_page] if level == _LEAF else used[~is_page]
        mine = mine[entries[mine] & _PXN == 0]
        if not len(mine):
            return _NONE
        if len(mine) * span > _MOST:
            raise NotReadError(f"more than {_MOST:,} executable pages by one table")
        pages = np.arange(span, dtype=np.uint64)
        offsets = (mine.astype(np.uint64) * np.uint64(span))[:, None] + pages
        paddrs = self._paddr(entries[mine])[:, None] + pages * np.uint64(self._size)
        writable = np.repeat(entries[mine] & _READ_ONLY == 0, span)
        return _Entries(offsets.ravel(), paddrs.ravel(), writable)

    def _paddr(self, entries: U64) -> U64:
        """Return the output address: bits 49 on down; pages of 64 KiB have bits 51 to 48 in bits 15 to 12."""
        if self._shift == _SHIFT_64K:
            low = entries & np.uint64(0x0000_FFFF_FFFF_0000)
            return np.asarray(low | (entries & np.uint64(0xF000)) << np.uint64(36), np.uint64)
        return np.asarray(entries & np.uint64((1 << 50) - self._size), np.uint64)
