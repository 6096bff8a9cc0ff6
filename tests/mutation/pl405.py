"""PL405: one bit of a signed module."""

from __future__ import annotations

from tests.mutation.mutation import NONE, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    section = world.seed.choice([s for s in world.original.image.text_sections if s.size > 8])
    at = section.offset + world.seed.randrange(section.size)
    world.write(at, bytes([world.memory[at] ^ 1 << world.seed.randrange(8)]))
    return NONE


MUTATION = Mutation(("signed",), mutate)
