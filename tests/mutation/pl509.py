"""PL509: a registered ftrace_ops whose callback is in no text."""

from __future__ import annotations

from tests.mutation.hooked import Planted
from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def registered(world: World) -> int:
    planted = Planted(world)
    ops = planted.start
    section = world.section(".data")
    planted.set_member(ops, "ftrace_ops.func", section.addr + world.seed.randrange(section.size) // 4 * 4)
    planted.set_member(ops, "ftrace_ops.next", planted.place("ftrace_list_end"))
    planted.set_member(ops, "ftrace_ops.func_hash", ops + 1024)
    planted.set(planted.place("ftrace_ops_list"), ops)
    return ops


MUTATION = Mutation(("booted 6.12",), registered)
