"""PL501: first slots of a booted kernel without their MOV."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.booted import BootedWorld
from tests.mutation.mutation import BOOTED, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    assert isinstance(world, BootedWorld)
    vaddr = world.one_of("first slots")
    world.set_word(vaddr, world.seed.choice((a64.NOP, a64.BTI_C, 0xAA1E03EA, a64.RET)))
    return vaddr


MUTATION = Mutation(BOOTED, mutate)
