"""PL503: words that no mechanism owns."""

from __future__ import annotations

from tests.mutation.booted import BootedWorld
from tests.mutation.mutation import BOOTED, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    assert isinstance(world, BootedWorld)
    vaddr = world.unclaimed()
    flipped = world.word(vaddr) ^ 1 << world.seed.randrange(32)
    world.set_word(vaddr, world.seed.choice((flipped, 0xD4200080, 0x14123456)))
    return vaddr


MUTATION = Mutation(BOOTED, mutate)
