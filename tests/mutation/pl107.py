"""PL107: two neighbours exchanged in a sorted table."""

from __future__ import annotations

from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    k = world.seed.randrange(int((~world.records.live).sum()), len(world.records) - 1)
    low, high = int(world.records.values[k]), int(world.records.values[k + 1])
    world.move_record(k, high - low)
    world.move_record(k + 1, low - high)
    return int(world.records.vaddrs[k + 1])


MUTATION = Mutation(("6.12",), mutate)
