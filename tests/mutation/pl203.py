"""PL203: a landing pad after the prologue."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World

BTIS = (a64.BTI, a64.BTI_C, a64.BTI_J, a64.BTI_JC)


def mutate(world: World) -> int:
    site = world.site()
    world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
    world.set_word(int(world.sites.second[site]), world.seed.choice(BTIS))
    return int(world.sites.first[site])


MUTATION = Mutation(ALL, mutate)
