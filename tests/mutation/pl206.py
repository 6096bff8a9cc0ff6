"""PL206: a planted pair, or a function that lost its record."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def _planted(world: World) -> int:
    """MOV; NOP somewhere."""
    place = world.pick(world.code)
    # A MOV before what a record points at makes a moved record of it: that breaks something else.
    while place + 4 not in world.code or place + 4 in world.records.values:
        place = world.pick(world.code)
    world.set_word(place, a64.MOV_X9_X30)
    world.set_word(place + 4, a64.NOP)
    return place


def _lost(world: World) -> int:
    """A record that names another function's site."""
    site, _ = world.lone_function()
    record = int(world.sites.record[site])
    other = int(world.sites.record[(site + 1) % len(world.sites)])
    world.move_record(record, int(world.records.values[other]) - int(world.records.values[record]))
    return int(world.sites.first[site])


MUTATIONS = (Mutation(BOTH, _planted, name="a MOV"), Mutation(BOTH, _lost, name="a lost record"))
