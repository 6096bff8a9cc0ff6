"""PL310: a conditional branch at a jump label."""

from __future__ import annotations

from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    """In the file from before."""
    code, _ = world.jump_label()
    world.set_word(code, world.seed.choice((0x54000040, 0xB4000040, 0xB5000041, 0x36000040, 0x37080042)))
    return code


MUTATION = Mutation(BOTH, mutate, of_before=True)
