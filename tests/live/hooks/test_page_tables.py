"""Page tables of pages of 64 KiB, whose top is longer than the addresses of a CPU with 48 bits need."""

from __future__ import annotations

import struct
from typing import Any, Final, cast

import pytest

from prologue.live.hooks.page_tables import PageTables
from prologue.live.memory.base import KernelInfo
from prologue.live.structs.objects import NotKnownError

_STEXT: Final = 0xFFFF_8000_0801_0000
_LINEAR: Final = -(1 << 52) & (1 << 64) - 1
_TOP: Final = 0xFFFF_8000_0A00_0000
_PAGE: Final = 1 << 16


class Tables:
    """Memory with nothing but three tables, of which the first is the kernel's."""

    def __init__(self, address_bits: int) -> None:
        below = [_LINEAR + 0x10000, _LINEAR + 0x20000]
        self._places = [_TOP, *below]
        index = [_STEXT >> 42 & 1023, _STEXT >> 29 & 8191, _STEXT >> 16 & 8191]
        self._entries = [(index[0], 0x10003), (index[1], 0x20003), (index[2], 0x30003)]
        self.info = KernelInfo(
            numbers={"PAGESIZE": _PAGE, "VA_BITS": 52, "TCR_EL1_T1SZ": 64 - address_bits},
        )

    def place(self, name: str) -> int:
        return {"swapper_pg_dir": _TOP, "_stext": _STEXT}[name]

    def variable(self, name: str) -> int:
        return {"memstart_addr": 0}[name]

    def read(self, vaddr: int, size: int) -> bytes:
        index, entry = self._entries[self._places.index(vaddr)]
        data = bytearray(size)
        struct.pack_into("<Q", data, 8 * index, entry)
        return bytes(data)


def test_a_cpu_with_48_bits_uses_the_end_of_a_table_for_52() -> None:
    tables = Tables(48)
    pages = PageTables(cast("Any", tables), tables.info).executable()
    assert (pages.vaddrs.tolist(), pages.paddrs.tolist()) == ([_STEXT], [0x30000])


@pytest.mark.parametrize(("size", "first"), [(1 << 14, 0xFFFF_C000_0000_0000), (1 << 16, 0xFFFF_8000_0000_0000)])
def test_the_linear_map_of_52_bits_ends_where_the_fewest_bits_of_a_cpu_say(size: int, first: int) -> None:
    """``VA_BITS_MIN`` (arch/arm64/include/asm/memory.h, 6.9-7.3) is 47 with pages of 16 KiB."""
    tables = Tables(52)
    tables.info = KernelInfo(numbers={"PAGESIZE": size, "VA_BITS": 52, "TCR_EL1_T1SZ": 12})
    assert PageTables(cast("Any", tables), tables.info).linear_end == first


@pytest.mark.parametrize("address_bits", [0, 35, 53])
def test_addresses_that_no_kernel_has_are_not_known(address_bits: int) -> None:
    tables = Tables(address_bits)
    with pytest.raises(NotKnownError, match=f"addresses of {address_bits} bits"):
        PageTables(cast("Any", tables), tables.info)
