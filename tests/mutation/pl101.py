"""PL101: bounds that are misaligned, the wrong way round, or around no bytes."""

from __future__ import annotations

from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> set[int]:
    start, stop = "__start_mcount_loc", "__stop_mcount_loc"
    kind = world.seed.randrange(4)
    low, high = (world.value(world.rows_of(name)[0]) for name in (start, stop))
    row = next(r for r in world.rows_of(start) if world.name(r) == start)
    if kind == 0:
        new = low + world.seed.randrange(1, 8)
        world.set_symbol(row, value=new)
        return {new}
    if kind == 1:
        row = next(r for r in world.rows_of(stop) if world.name(r) == stop)
        world.set_symbol(row, value=high + world.seed.randrange(1, 8))
        return {low}
    if kind == 2:
        row = next(r for r in world.rows_of(stop) if world.name(r) == stop)
        new = low - 8 * world.seed.randrange(1, 1000)
        world.set_symbol(row, value=new)
        return {new}
    bss = world.section(".bss")
    world.set_symbol(row, value=bss.addr)
    row = next(r for r in world.rows_of(stop) if world.name(r) == stop)
    world.set_symbol(row, value=bss.addr + high - low)
    return {bss.addr}


MUTATION = Mutation(BOTH, mutate)
