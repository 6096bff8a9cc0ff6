"""PL110: some records moved."""

from __future__ import annotations

from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World


def mutate(world: World) -> set[int]:
    chosen = world.sites_(world.seed.randrange(1, 4))
    for site in chosen:
        record = int(world.sites.record[site])
        world.move_record(record, int(world.sites.second[site]) - int(world.records.values[record]))
    return {int(world.sites.first[site]) for site in chosen}


MUTATION = Mutation(ALL, mutate)
