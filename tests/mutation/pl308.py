"""PL308: an instruction at a jump label that may not be changed in a running kernel."""

from __future__ import annotations

from tests.mutation.mutation import BOTH, OFF_LIST, Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    code, _ = world.jump_label()
    call = world.original.symbols.find("ftrace_call")
    if call is not None and world.seed.random() < 0.2:
        code = call.vaddr
    world.set_word(code, world.seed.choice(OFF_LIST))
    return code


MUTATION = Mutation(BOTH, mutate)
