"""PL202: some sites with a prologue."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World


def mutate(world: World) -> set[int]:
    chosen = world.sites_(world.seed.randrange(1, max(2, min(50, len(world.sites) // 2))))
    for site in chosen:
        world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
    return {int(world.sites.first[site]) for site in chosen}


MUTATION = Mutation(ALL, mutate)
