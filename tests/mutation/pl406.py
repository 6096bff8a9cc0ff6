"""PL406: one bit of the text, with the same build ID."""

from __future__ import annotations

from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    section = world.seed.choice([s for s in world.original.image.text_sections if s.size > 8])
    at = world.seed.randrange(section.size)
    world.write(section.offset + at, bytes([world.memory[section.offset + at] ^ 1 << world.seed.randrange(8)]))
    return section.addr


MUTATION = Mutation(ALL, mutate)
