"""PL103: a record's relocation of another type."""

from __future__ import annotations

import struct

from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    record = int(world.sites.record[world.site()])
    kinds = (0x101, 0x102, 0x105, 0x400, 0x401, 0x402, 0x408) if world.is_kernel else (258, 260, 261, 262, 283)
    entry = int(world.records.homes[record]) - 16
    (info,) = struct.unpack_from("<Q", world.memory, entry + 8)
    world.write(entry + 8, struct.pack("<Q", info & ~0xFFFFFFFF | world.seed.choice(kinds)))
    return int(world.records.vaddrs[record])


MUTATION = Mutation(("6.1", "module", "module 4,2"), mutate)
