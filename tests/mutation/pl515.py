"""PL515: a registered ftrace_ops whose callback is in a module that is listed and unsigned."""

from __future__ import annotations

import struct

from tests.mutation.hooked import Planted
from tests.mutation.mutation import Mutation
from tests.mutation.world import World

_PAGE = 0xFFFF_8000_7000_0000  # has the module's struct, and from here on its text
_TEXT = _PAGE + 0x800
_UNSIGNED = 1 << 13  # TAINT_UNSIGNED_MODULE


def unsigned(world: World) -> int:
    planted = Planted(world)
    ops, page, modules = planted.start, bytearray(4096), planted.place("modules")
    for path, value in (
        ("module.list", modules),
        ("module.taints", _UNSIGNED),
        ("module.mem", _TEXT),
    ):
        struct.pack_into("<Q", page, planted.offset(path), value)
    size = planted.offset("module.mem") + planted.offset("module_memory.size")
    struct.pack_into("<I", page, size, world.seed.randrange(64, 1024) & ~3)
    planted.map(_PAGE, bytes(page))
    planted.set(modules, _PAGE + planted.offset("module.list"))
    planted.set_member(ops, "ftrace_ops.func", _TEXT)
    planted.set_member(ops, "ftrace_ops.next", planted.place("ftrace_list_end"))
    planted.set_member(ops, "ftrace_ops.func_hash", ops + 1024)
    planted.set(planted.place("ftrace_ops_list"), ops)
    return ops


MUTATION = Mutation(("booted 6.12",), unsigned)
