"""PL511: page tables that let the kernel execute what nobody owns."""

from __future__ import annotations

import struct
from dataclasses import replace

from tests.mutation.hooked import Planted
from tests.mutation.mutation import Mutation
from tests.mutation.world import World

_LINEAR = 0xFFFF_0000_0000_0000
_BLOCK = 1 << 21
_TABLES = 0xFFFF_0000_4000_0000  # in the linear map


def executable(world: World) -> int:
    """A block of two megabytes, far from all that is there."""
    planted = Planted(world)
    info = planted.world.kernel.info
    planted.world.kernel.info = replace(info, numbers={"PAGESIZE": 4096, "VA_BITS": 48, "TCR_EL1_T1SZ": 16})
    planted.set(planted.place("memstart_addr"), 0)
    vaddr = 0xFFFF_9000_0000_0000 + world.seed.randrange(1 << 20) * _BLOCK
    tables = (planted.place("swapper_pg_dir"), _TABLES, _TABLES + 4096)
    entries = (tables[1] - _LINEAR | 3, tables[2] - _LINEAR | 3, 0x4000_0000 | 1)
    for table, entry, shift in zip(tables, entries, (39, 30, 21), strict=True):
        page = bytearray(4096)
        struct.pack_into("<Q", page, 8 * (vaddr >> shift & 511), entry)
        planted.map(table, bytes(page))
    return vaddr


MUTATION = Mutation(("booted 6.12",), executable)
