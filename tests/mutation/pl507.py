"""PL507: another function of the kernel is between the mechanism and the store, or instead of it."""

from __future__ import annotations

from tests.mutation.mutation import RECORDED, Mutation
from tests.mutation.recorded import RecordedWorld
from tests.mutation.world import World


def mutate(world: World) -> int:
    assert isinstance(world, RecordedWorld)
    row = world.some_row()
    other = world.seed.choice(("vfs_read", "schedule", "kfree"))
    world.rows["callers"][row, world.seed.randrange(2)] = world.address(other)
    return int(world.rows["address"][row])


MUTATION = Mutation(RECORDED, mutate)
