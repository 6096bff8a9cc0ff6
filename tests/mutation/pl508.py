"""PL508: words that are wrong for the mechanism that owns them."""

from __future__ import annotations

import numpy as np

from prologue.insn import a64
from tests.mutation.booted import BootedWorld
from tests.mutation.mutation import BOOTED, Mutation
from tests.mutation.world import World


def turned_label(world: World) -> int:
    """A jump label against its key."""
    code, target = world.jump_label()
    while not world.original.image.in_text(np.array([code], np.uint64))[0] or ".init" in where(world, code):
        code, target = world.jump_label()
    world.set_word(code, a64.NOP if world.word(code) != a64.NOP else a64.encode_b(code, target))
    return code


def where(world: World, vaddr: int) -> str:
    return world.original.symbols.locate(vaddr).section or ""


def broken_alternative(world: World) -> int:
    assert isinstance(world, BootedWorld)
    vaddr = world.one_of("alternatives")
    world.set_word(vaddr, world.word(vaddr) ^ 1 << world.seed.randrange(32))
    return vaddr


def broken_literal(world: World) -> int:
    assert isinstance(world, BootedWorld)
    name = "CALL_OPS literals" if "CALL_OPS literals" in world.claimed else "relocated literals"
    vaddr = world.one_of(name)
    world.set_word(vaddr, world.word(vaddr) ^ 1 << world.seed.randrange(32))
    return vaddr


def called_without_reason(world: World) -> int:
    """BL to ftrace from a site that nobody traces: only what else is known of the site can say so."""
    assert isinstance(world, BootedWorld)
    vaddr = world.one_of("second slots")
    caller = world.original.symbols.find("ftrace_caller")
    assert caller is not None
    world.set_word(vaddr, a64.encode_b(vaddr, caller.vaddr, link=True))
    return vaddr


MUTATIONS = (
    Mutation(BOOTED, turned_label, name="jump label"),
    Mutation(BOOTED, broken_alternative, name="alternative"),
    Mutation(BOOTED, broken_literal, name="literal"),
    Mutation(("booted 6.12",), called_without_reason, name="call"),
)
