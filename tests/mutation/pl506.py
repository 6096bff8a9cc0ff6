"""PL506: any of the five steps is missing, or all that come after one; or the DC or the IC is for another line."""

from __future__ import annotations

from prologue.live.pokes.recording import Maintenance
from tests.mutation.mutation import RECORDED, Mutation
from tests.mutation.recorded import RecordedWorld
from tests.mutation.world import World


def mutate(world: World) -> int:
    assert isinstance(world, RecordedWorld)
    row = world.some_row()
    steps = [1, 2, 3, 2, 6]
    k = world.seed.randrange(7)
    if k < 5:
        steps = steps[:k] + (steps[k + 1 :] if world.seed.randrange(2) else [])
    else:
        steps[2 * (k - 5)] = (Maintenance.DC_ELSEWHERE, Maintenance.IC_ELSEWHERE)[k - 5]
    world.rows["maintenance"][row] = sum(step << 4 * n for n, step in enumerate(steps))
    return int(world.rows["address"][row])


MUTATION = Mutation(RECORDED, mutate)
