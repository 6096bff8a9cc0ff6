"""PL102: a record with no relocation, or with two."""

from __future__ import annotations

import struct

from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    record = world.site()
    record = int(world.sites.record[record])
    slot = int(world.records.vaddrs[record])
    if world.records.relr.any():
        _clear_relr(world, slot)
        return slot
    entry = world.rela_at(slot)
    kind = world.seed.randrange(3)
    if kind == 0:
        other = int(world.records.vaddrs[(record + world.seed.randrange(1, 1000)) % len(world.records)])
        world.write(world.rela_at(other), struct.pack("<Q", slot))  # two for one, none for the other
    elif kind == 1:
        world.write(entry + 8, struct.pack("<Q", 0))  # R_AARCH64_NONE
        world.write(world.offset(slot), struct.pack("<Q", int(world.records.values[record])))
    else:
        slot += world.seed.choice((1, 2, 4))
        world.write(entry, struct.pack("<Q", slot))
    return slot


def _clear_relr(world: World, slot: int) -> None:
    """Take one slot out of its bitmap."""
    section = world.section(".relr.dyn")
    base = 0
    for index, word in enumerate(world.original.image.view(section, "<u8").tolist()):
        if not word & 1:
            base = word + 8
            continue
        if base <= slot < base + 63 * 8:
            bit = 1 << (1 + (slot - base) // 8)
            assert word & bit
            world.write(section.offset + 8 * index, struct.pack("<Q", word & ~bit))
            return
        base += 63 * 8
    raise AssertionError(f"{slot:#x} is in no bitmap")


MUTATION = Mutation(BOTH, mutate)
