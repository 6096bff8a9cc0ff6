"""PL109: a function whose symbol is somewhere else."""

from __future__ import annotations

from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    site, row = world.lone_function()
    world.set_symbol(row, value=world.value(row) + 4 * world.seed.randrange(3, 8))  # nearer: PL208
    return int(world.sites.entry[site])


MUTATION = Mutation(ALL, mutate)
