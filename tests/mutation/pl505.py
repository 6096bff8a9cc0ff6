"""PL505: the memory of another build, or at another place."""

from __future__ import annotations

from dataclasses import replace

from tests.mutation.booted import BootedWorld
from tests.mutation.mutation import BOOTED, NONE, Mutation
from tests.mutation.world import World


def another_build(world: World) -> int:
    assert isinstance(world, BootedWorld)
    world.kernel.info = replace(world.kernel.info, build_id=f"{world.seed.randrange(1 << 160):040x}")
    return NONE


def another_slide(world: World) -> int:
    assert isinstance(world, BootedWorld)
    world.kernel.info = replace(world.kernel.info, slide=0x1000 * world.seed.randrange(1, 100))
    return NONE


MUTATIONS = (
    Mutation(BOOTED, another_build, name="another build"),
    Mutation(BOOTED, another_slide, name="another slide"),
)
