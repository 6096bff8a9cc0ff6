"""PL109: a function whose symbol is no function's, or somewhere else."""

from __future__ import annotations

from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    site, row = world.lone_function()
    info = int(world.original.symbols.table["info"][row])
    if world.seed.random() < 0.5:
        world.set_symbol(row, info=info & 0xF0)  # STT_NOTYPE
    else:
        world.set_symbol(row, value=world.value(row) + 4 * world.seed.randrange(1, 8))
    return int(world.sites.entry[site])


MUTATION = Mutation(ALL, mutate)
