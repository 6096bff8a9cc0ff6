"""PL404: one word or one bit that the boot file does not have."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    if world.seed.random() < 0.5:
        site = world.site()
        world.set_word(int(world.sites.first[site]), a64.MOV_X9_X30)
        return int(world.sites.first[site])
    section = world.section(world.seed.choice((".text", ".rodata", ".init.text", ".init.data", ".data")))
    at = world.seed.randrange(section.size)
    world.write(section.offset + at, bytes([world.memory[section.offset + at] ^ 1 << world.seed.randrange(8)]))
    return section.addr + (at & ~3)


MUTATION = Mutation(BOTH, mutate)
