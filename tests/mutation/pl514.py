"""PL514: an ftrace_ops on the list that traces everything, and a record that counts no user."""

from __future__ import annotations

import struct

from tests.mutation.hooked import Planted
from tests.mutation.mutation import Mutation
from tests.mutation.world import World


def uncounted(world: World) -> int:
    planted = Planted(world)
    ops, sites = planted.start, world.original.sites
    assert sites is not None
    place = int(world.seed.choice(sites.second.tolist()))
    planted.set_member(ops, "ftrace_ops.func", planted.place("ftrace_stub"))
    planted.set_member(ops, "ftrace_ops.flags", 1)  # FTRACE_OPS_FL_ENABLED
    planted.set_member(ops, "ftrace_ops.next", planted.place("ftrace_list_end"))
    planted.set_member(ops, "ftrace_ops.func_hash", ops + 1024)
    planted.set(planted.place("ftrace_ops_list"), ops)
    page, record = ops + 1280, ops + 1536
    planted.set_member(page, "ftrace_page.records", record)
    world.write(world.offset(page + planted.offset("ftrace_page.index")), struct.pack("<I", 1))
    planted.set_member(record, "dyn_ftrace.ip", place)
    start, zeros = planted.place("ftrace_pages_start"), bytearray(4096)  # in .bss, which the file does not have
    struct.pack_into("<Q", zeros, start & 4095, page)
    planted.map(start & ~4095, bytes(zeros))
    return place


MUTATION = Mutation(("booted 6.12",), uncounted)
