"""PL408: the way from ftrace_init to ftrace_init_nop is cut somewhere."""

from __future__ import annotations

from prologue.elf.symbols import Symbol
from prologue.insn import a64
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World

CHAIN = ("ftrace_init", "ftrace_process_locs")


def _function(world: World) -> tuple[Symbol, Symbol]:
    """One function of the chain, and the first."""
    found = [world.original.symbols.find(name) for name in CHAIN]
    function = world.seed.choice(found)
    assert function is not None
    assert found[0] is not None
    return function, found[0]


def _no_call(world: World) -> int:
    """The calls of the next function in the chain are NOPs; where it is inlined, the function does nothing."""
    function, entry = _function(world)
    callee = world.original.symbols.find({"ftrace_init": CHAIN[1]}.get(function.name, "ftrace_init_nop"))
    assert callee is not None
    calls = [
        vaddr
        for vaddr in range(function.vaddr, function.vaddr + function.size, 4)
        if a64.classify(world.word(vaddr)) == "BL" and a64.branch_target(world.word(vaddr), vaddr) == callee.vaddr
    ]
    if not calls:
        return _return(world, function, entry)
    for vaddr in calls:
        world.set_word(vaddr, a64.NOP)
    return entry.vaddr


def _returns(world: World) -> int:
    return _return(world, *_function(world))


def _return(world: World, function: Symbol, entry: Symbol) -> int:
    """The function returns at once, past the pair of a traced function, which is another rule's."""
    start = next(v for v in range(function.vaddr, function.vaddr + 16, 4) if world.word(v) != a64.NOP)
    world.set_word(start, a64.RET)
    return entry.vaddr


MUTATIONS = (Mutation(BOTH, _no_call, name="no call"), Mutation(BOTH, _returns, name="an early return"))
