"""PL104: a slot that says something else than its addend."""

from __future__ import annotations

import struct

from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    record = int(world.sites.record[world.site()])
    slot = int(world.records.vaddrs[record])
    world.write(world.offset(slot), struct.pack("<Q", world.seed.getrandbits(64) | 1))
    return slot


MUTATION = Mutation(("6.1",), mutate)
