"""PL306: ftrace_caller too far away."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    far = world.seed.choice((-1, 1)) * (a64.BL_REACH + world.seed.randrange(64 << 20) * 4)
    site = world.site()
    row = next(r for r in world.rows_of("ftrace_caller") if world.name(r) == "ftrace_caller")
    world.set_symbol(row, value=int(world.sites.second[site]) + far)
    return int(world.sites.second[site])


MUTATION = Mutation(BOTH, mutate)
