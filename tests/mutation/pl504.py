"""PL504: words that another reading finds changed."""

from __future__ import annotations

from tests.mutation.booted import BootedWorld
from tests.mutation.mutation import BOOTED, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    assert isinstance(world, BootedWorld)
    world.kernel.live = True
    vaddr = world.seed.choice((world.unclaimed(), world.one_of("second slots"), world.one_of("jump labels")))
    world.kernel.restless.add(vaddr)
    return vaddr


MUTATION = Mutation(BOOTED, mutate)
