"""PL105: a record that points anywhere but at text, or at half an instruction."""

from __future__ import annotations

from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    record = int(world.sites.record[world.site()])
    kind = world.seed.randrange(3)
    if kind == 0:
        distance = world.seed.choice((1, 2, 3))
    else:
        distance = world.seed.choice((1, -1)) * (1 << world.seed.randrange(33, 44))
    world.move_record(record, distance)
    return int(world.records.vaddrs[record])


MUTATION = Mutation(ALL, mutate)
