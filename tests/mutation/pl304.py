"""PL304: a read of X9 right after the pair."""

from __future__ import annotations

from tests.mutation.mutation import ALL, Mutation
from tests.mutation.world import World

READS_X9 = (0x8B090000, 0xF9400120, 0xF9000009, 0xF90003E9, 0xA90127E8, 0xEB00013F, 0xB4000049, 0xD61F0120, 0x9B097C00)


def mutate(world: World) -> int:
    while True:
        site = world.site()
        place = int(world.sites.second[site]) + 4
        if place in world.code:
            break
    world.set_word(place, world.seed.choice(READS_X9))
    return int(world.sites.first[site])


MUTATION = Mutation(ALL, mutate)
