"""PL206: a planted pair, or a function that lost its record."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    if world.seed.random() < 0.5:
        place = world.pick(world.code)
        # A MOV before what a record points at makes a moved record of it: that breaks something else.
        while place + 4 not in world.code or place + 4 in world.records.values:
            place = world.pick(world.code)
        world.set_word(place, a64.MOV_X9_X30)
        world.set_word(place + 4, a64.NOP)
        return place
    site, _ = world.lone_function()
    record = int(world.sites.record[site])
    other = int(world.sites.record[(site + 1) % len(world.sites)])
    world.move_record(record, int(world.records.values[other]) - int(world.records.values[record]))
    return int(world.sites.first[site])


MUTATION = Mutation(BOTH, mutate)
