"""PL207: a return address signed or pushed before the pair."""

from __future__ import annotations

import numpy as np

from prologue.insn import a64
from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    site, row = world.lone_function()
    while not world.original.image.in_text(world.sites.first[site : site + 1] - np.uint64(4))[0]:
        site, row = world.lone_function()
    place = int(world.sites.first[site]) - 4
    world.set_word(place, world.seed.choice((a64.PACIASP, a64.SCS_PUSH)))
    world.set_symbol(row, value=world.value(row) - 4)
    return place


MUTATION = Mutation(ALL, mutate)
