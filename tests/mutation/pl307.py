"""PL307: a trampoline section of another name."""

from __future__ import annotations

from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def mutate(world: World) -> int:
    names = world.original.image.section(".shstrtab")
    assert names is not None
    at = world.memory.find(b".text.ftrace_trampoline\0", names.offset)
    assert at >= 0
    world.write(at + world.seed.randrange(6, 22), world.seed.choice((b"X", b"0", b"+")))
    return int(world.sites.first[0])


MUTATION = Mutation(("module", "module 4,2"), mutate)
