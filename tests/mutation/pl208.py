"""PL208: a function whose symbols stand at its second slot."""

from __future__ import annotations

from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    site = world.site()
    second = int(world.sites.second[site])
    for row in world.rows_at(int(world.sites.entry[site])):
        world.set_symbol(row, value=world.value(row) + second - int(world.sites.entry[site]))
    return second


MUTATION = Mutation(ALL, mutate)
