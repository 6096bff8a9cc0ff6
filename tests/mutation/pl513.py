"""PL513: an instruction off the list is written live where no CPU had executed anything."""

from __future__ import annotations

from tests.mutation.mutation import OFF_LIST, RECORDED, Mutation
from tests.mutation.recorded import RecordedWorld
from tests.mutation.world import World


def mutate(world: World) -> int:
    assert isinstance(world, RecordedWorld)
    row = world.some_row()
    world.rows[world.seed.choice(("old", "new"))][row] = world.seed.choice(OFF_LIST)
    world.rows["flags"][row] = 0
    return int(world.rows["address"][row])


MUTATION = Mutation(RECORDED, mutate)
