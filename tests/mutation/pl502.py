"""PL502: second slots that call something else than ftrace."""

from __future__ import annotations

from prologue.insn import a64
from tests.mutation.booted import BootedWorld
from tests.mutation.mutation import BOOTED, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    assert isinstance(world, BootedWorld)
    vaddr = world.one_of("second slots")
    world.set_word(vaddr, a64.encode_b(vaddr, vaddr + 4 * world.seed.randrange(-(1 << 24), 1 << 24), link=True))
    return vaddr


MUTATION = Mutation(BOOTED, mutate)
