"""PL401: moved records, with prologues, in a stock kernel."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> set[int]:
    chosen = world.sites_(world.seed.randrange(1, 30))
    for site in chosen:
        world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
        record = int(world.sites.record[site])
        world.move_record(record, int(world.sites.second[site]) - int(world.records.values[record]))
    return {int(world.sites.first[site]) for site in chosen}


MUTATION = Mutation(BOTH, mutate)
