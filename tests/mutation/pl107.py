"""PL107: two neighbours exchanged in a sorted table."""

from __future__ import annotations

from tests.mutation.contract2 import process
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    k = world.seed.randrange(int((~world.records.nonzero).sum()), len(world.records) - 1)
    low, high = int(world.records.values[k]), int(world.records.values[k + 1])
    world.move_record(k, high - low)
    world.move_record(k + 1, low - high)
    return int(world.records.vaddrs[k + 1])


def offsets(world: World) -> int:
    """Version 2: two neighbouring offsets exchanged."""
    records = process(world).records
    assert records is not None
    k = world.seed.randrange(len(records) - 1)
    home = int(records.homes[k])
    low, high = world.memory[home : home + 4], world.memory[home + 4 : home + 8]
    world.write(home, high + low)
    return int(records.vaddrs[k + 1])


MUTATIONS = (Mutation(("6.12",), mutate), Mutation(BOTH, offsets, name="offsets"))
