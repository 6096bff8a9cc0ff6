"""PL208: a function whose symbols stand at its second slot."""

from __future__ import annotations

from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World

STT_SECTION = 3


def mutate(world: World) -> int:
    site = world.site()
    second = int(world.sites.second[site])
    types = world.original.symbols.table["info"] & 15
    for row in world.rows_at(int(world.sites.entry[site])):
        if types[row] == STT_SECTION:  # records of modules are relative to it
            continue
        world.set_symbol(row, value=world.value(row) + second - int(world.sites.entry[site]))
    return second


MUTATION = Mutation(ALL, mutate)
