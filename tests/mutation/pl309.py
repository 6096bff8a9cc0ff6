"""PL309: a branch at a jump label that leads somewhere else, and an entry whose branch leaves its function."""

from __future__ import annotations

import struct

from prologue.kernel import tables
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    code, target = world.jump_label()
    wrong = (target - code) // 4 + world.seed.randrange(1, 1000)
    words = (0x14000000 | wrong & 0x3FFFFFF, 0x94000000 | wrong & 0x3FFFFFF, 0xD4210000, 0x54000040, 0xB4000040)
    world.set_word(code, world.seed.choice(words))
    return code


def mutate_entry(world: World) -> int:
    """Move a target into the middle of an instruction, or far away."""
    labels = tables.jump_labels(world.original)
    k = world.seed.randrange(len(labels.code))
    field = world.offset(int(labels.entries[k]) + 4)
    (distance,) = struct.unpack_from("<i", world.memory, field)
    far = distance + world.seed.choice((1, 2, 3, 1 << 24, -(1 << 24)))
    world.write(field, struct.pack("<i", far))
    return int(labels.code[k])


MUTATIONS = (Mutation(BOTH, mutate, name="word"), Mutation(BOTH, mutate_entry, name="entry"))
