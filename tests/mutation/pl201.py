"""PL201: another word in a slot."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.mutation import ALL, OFF_LIST, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    site = world.site()
    slot = world.seed.choice((world.sites.first, world.sites.second))
    words = (
        *OFF_LIST,
        0x94000010,
        0x14000010,
        0x00000000,
        world.word(int(slot[site])) ^ 1 << world.seed.randrange(5, 12),
    )
    word = world.seed.choice(words)
    world.set_word(int(slot[site]), word if word & a64.BTI_MASK != a64.BTI else 0)
    return int(world.sites.first[site])


MUTATION = Mutation(ALL, mutate)
