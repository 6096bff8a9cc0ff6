"""PL401: moved records, with prologues, in a stock kernel, or all of them in a module."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def _some(world: World) -> set[int]:
    return _move(world, world.sites_(world.seed.randrange(1, 30)))


def _all(world: World) -> set[int]:
    return _move(world, list(range(len(world.sites))))


def _move(world: World, chosen: list[int]) -> set[int]:
    for site in chosen:
        world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
        record = int(world.sites.record[site])
        world.move_record(record, int(world.sites.second[site]) - int(world.records.values[record]))
    return {int(world.sites.first[site]) for site in chosen}


MUTATIONS = (
    Mutation(BOTH, _some, name="kernel"),
    Mutation(("module", "module 4,2"), _all, name="module"),
)
