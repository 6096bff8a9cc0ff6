"""PL512: a word of read-only data that somebody wrote."""

from __future__ import annotations

from prologue.live.hooks.run import audit
from tests.mutation.booted import BootedWorld
from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def written(world: World) -> set[int]:
    """One bit of any word before what is read-only after init, most of which are strings and tables."""
    assert isinstance(world, BootedWorld)
    world.judge = audit
    start, end = (world.original.symbols.find(name) for name in ("__start_rodata", "__start_ro_after_init"))
    assert start is not None
    assert end is not None
    vaddr = world.seed.randrange(start.vaddr, end.vaddr, 8)
    world.set_word(vaddr, world.word(vaddr) ^ 1 << world.seed.randrange(32))
    return {vaddr}


MUTATION = Mutation(("booted 6.12",), written)
