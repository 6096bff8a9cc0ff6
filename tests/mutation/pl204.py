"""PL204: half of a literal that is no NOP."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.mutation import OFF_LIST, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int | set[int]:
    site = world.site()
    literal = int(world.sites.entry[site]) - 8
    place = literal + world.seed.choice((0, 4))
    word = world.seed.choice((*OFF_LIST, 0, a64.MOV_X9_X30, a64.NOP ^ 1 << world.seed.randrange(32)))
    world.set_word(place, word)
    if place > literal and word & a64.BTI_MASK == a64.BTI:
        return {literal - 4}  # one bit makes a landing pad of a NOP: the function then begins there, unaligned
    return literal


MUTATION = Mutation(("6.12", "module 4,2"), mutate)
