"""PL511: page tables that let the kernel execute what has no owner."""

from __future__ import annotations

import struct
from dataclasses import replace

from tests.mutation.hooked import Planted
from tests.mutation.mutation import Mutation
from tests.mutation.world import World

_LINEAR = 0xFFFF_0000_0000_0000
_BLOCK = 1 << 21
_TABLES = 0xFFFF_0000_4000_0000  # in the linear map
_SHIFTS = (39, 30, 21)  # of an index of the top table, of the next, and of one of blocks


def executable(world: World) -> int:
    """A block of two megabytes, far from all that is there; the first one of the kernel's text is executable, too."""
    planted = Planted(world)
    info = planted.world.kernel.info
    planted.world.kernel.info = replace(info, numbers={"PAGESIZE": 4096, "VA_BITS": 48, "TCR_EL1_T1SZ": 16})
    planted.set(planted.place("memstart_addr"), 0)
    vaddr = 0xFFFF_9000_0000_0000 + world.seed.randrange(1 << 20) * _BLOCK
    pages = {planted.place("swapper_pg_dir"): bytearray(4096)}
    for block in (planted.place("_stext"), vaddr):
        table = planted.place("swapper_pg_dir")
        for shift in _SHIFTS:
            below = _TABLES + 4096 * len(pages)
            entry = 0x4000_0000 | 1 if shift == _SHIFTS[-1] else below - _LINEAR | 3
            struct.pack_into("<Q", pages[table], 8 * (block >> shift & 511), entry)
            if shift != _SHIFTS[-1]:
                pages[below] = bytearray(4096)
                table = below
    for place, page in pages.items():
        planted.map(place, bytes(page))
    return vaddr


MUTATION = Mutation(("booted 6.12",), executable)
