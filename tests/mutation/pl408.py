"""PL408: the way from ftrace_init to ftrace_init_nop is cut somewhere."""

from __future__ import annotations

from prologue.insn import a64
from prologue.sites.kernel import Kernel
from tests.mutation.mutation import BOTH, Mutation
from tests.mutation.world import World

CHAIN = ("ftrace_init", "ftrace_process_locs")


def mutate(world: World) -> int:
    kernel = world.original
    assert isinstance(kernel, Kernel)
    entry, *_ = found = [kernel.symbols.find(name) for name in CHAIN]
    function = world.seed.choice(found)
    assert entry is not None
    assert function is not None
    callee = kernel.symbols.find({"ftrace_init": CHAIN[1]}.get(function.name, "ftrace_init_nop"))
    assert callee is not None
    calls = [
        vaddr
        for vaddr in range(function.vaddr, function.vaddr + function.size, 4)
        if a64.classify(world.word(vaddr)) == "BL" and a64.branch_target(world.word(vaddr), vaddr) == callee.vaddr
    ]
    if calls and world.seed.random() < 0.5:
        for vaddr in calls:
            world.set_word(vaddr, a64.NOP)
    else:
        # Past the pair of a traced function, which is another rule's.
        start = next(v for v in range(function.vaddr, function.vaddr + 16, 4) if world.word(v) != a64.NOP)
        world.set_word(start, a64.RET)
    return entry.vaddr


MUTATION = Mutation(BOTH, mutate)
