"""PL309: a branch at a jump label that leads somewhere else."""

from __future__ import annotations

from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    code, target = world.jump_label()
    wrong = (target - code) // 4 + world.seed.randrange(1, 1000)
    words = (0x14000000 | wrong & 0x3FFFFFF, 0x94000000 | wrong & 0x3FFFFFF, 0xD4210000, 0x54000040, 0xB4000040)
    world.set_word(code, world.seed.choice(words))
    return code


MUTATION = Mutation(BOTH, mutate)
