"""PL5: what is wrong in a running kernel."""

from __future__ import annotations

import struct
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from prologue.dwarf.struct_types import StructTypes, struct_types
from prologue.elf.image import ElfImage
from prologue.insn import a64
from prologue.live.hooks.run import audit
from prologue.live.pokes.recording import Maintenance
from tests.mutation.booted import BootedWorld
from tests.mutation.mutation import BOOTED, NONE, OFF_LIST, RECORDED, mutation
from tests.mutation.recorded import RecordedWorld


@mutation("PL501", BOOTED)
def no_mov(world: BootedWorld) -> int:
    """First slots of a booted kernel without their MOV."""
    vaddr = world.one_of("first slots")
    world.set_word(vaddr, world.seed.choice((a64.NOP, a64.BTI_C, 0xAA1E03EA, a64.RET)))
    return vaddr


@mutation("PL502", BOOTED)
def another_call(world: BootedWorld) -> int:
    """Second slots that call something else than ftrace."""
    vaddr = world.one_of("second slots")
    world.set_word(vaddr, a64.encode_b(vaddr, vaddr + 4 * world.seed.randrange(-(1 << 24), 1 << 24), link=True))
    return vaddr


@mutation("PL503", BOOTED)
def unowned(world: BootedWorld) -> int:
    """Words that no mechanism owns."""
    vaddr = world.unclaimed()
    flipped = world.word(vaddr) ^ 1 << world.seed.randrange(32)
    world.set_word(vaddr, world.seed.choice((flipped, 0xD4200080, 0x14123456)))
    return vaddr


@mutation("PL504", BOOTED)
def restless(world: BootedWorld) -> int:
    """Words that another reading finds changed."""
    world.kernel.live = True
    vaddr = world.seed.choice((world.unclaimed(), world.one_of("second slots"), world.one_of("jump labels")))
    world.kernel.restless.add(vaddr)
    return vaddr


@mutation("PL505", BOOTED)
def another_build(world: BootedWorld) -> int:
    """The memory of another build."""
    world.kernel.info = replace(world.kernel.info, build_id=f"{world.seed.randrange(1 << 160):040x}")
    return NONE


@mutation("PL506", RECORDED)
def missing_step(world: RecordedWorld) -> int:
    """Any of the five steps is missing, or all that come after one; or the DC or the IC is for another line."""
    row = world.some_row()
    steps = [1, 2, 3, 2, 6]
    k = world.seed.randrange(7)
    if k < 5:
        steps = steps[:k] + (steps[k + 1 :] if world.seed.randrange(2) else [])
    else:
        steps[2 * (k - 5)] = (Maintenance.DC_ELSEWHERE, Maintenance.IC_ELSEWHERE)[k - 5]
    world.rows["maintenance"][row] = sum(step << 4 * n for n, step in enumerate(steps))
    return int(world.rows["address"][row])


@mutation("PL507", RECORDED)
def another_caller(world: RecordedWorld) -> int:
    """Another function of the kernel is between the mechanism and the store, or instead of it."""
    row = world.some_row()
    other = world.seed.choice(("vfs_read", "schedule", "kfree"))
    world.rows["callers"][row, world.seed.randrange(2)] = world.address(other)
    return int(world.rows["address"][row])


@mutation("PL508", BOOTED, "jump label")
def turned_label(world: BootedWorld) -> int:
    """A jump label against its key."""
    code, target = world.jump_label()
    image, symbols = world.original.image, world.original.symbols
    while not image.in_text(np.array([code], np.uint64))[0] or ".init" in (symbols.locate(code).section or ""):
        code, target = world.jump_label()
    world.set_word(code, a64.NOP if world.word(code) != a64.NOP else a64.encode_b(code, target))
    return code


@mutation("PL508", BOOTED, "alternative")
def broken_alternative(world: BootedWorld) -> int:
    return world.flipped(world.one_of("alternatives"))


ROOM = 2048  # bytes of the first task, which has no filters, for structs that lists lead to


@cache
def types(path: Path) -> StructTypes:
    """The types of a vmlinux."""
    return next(types for _, types in struct_types(ElfImage(path)))


class Planted:
    """Room for structs in a world whose audits look at what is attached."""

    def __init__(self, world: BootedWorld) -> None:
        world.judge = audit
        self.world, self._types = world, types(world.path)
        self.start = self.place("init_task")
        world.write(world.offset(self.start), bytes(ROOM))

    def place(self, name: str) -> int:
        return self.world.symbol(name).vaddr

    def offset(self, path: str) -> int:
        offset = self._types.offset(path)
        assert offset is not None
        return offset

    def map(self, vaddr: int, data: bytes) -> None:
        """Let memory have a page that the file does not have."""
        self.world.kernel.more[vaddr] = data

    def set(self, vaddr: int, value: int) -> None:
        self.world.write(self.world.offset(vaddr), struct.pack("<Q", value))

    def register(self, func: int) -> int:
        """Let ftrace's list have one entry, with that callback; return it."""
        ops = self.start
        self.set_member(ops, "ftrace_ops.func", func)
        self.set_member(ops, "ftrace_ops.next", self.place("ftrace_list_end"))
        self.set_member(ops, "ftrace_ops.func_hash", ops + 1024)
        self.set(self.place("ftrace_ops_list"), ops)
        return ops

    def set_member(self, vaddr: int, path: str, value: int) -> None:
        self.set(vaddr + self.offset(path), value)


@mutation("PL509", ("booted 6.12",))
def registered(world: BootedWorld) -> int:
    """A registered ftrace_ops whose callback is in no text."""
    section = world.section(".data")
    return Planted(world).register(section.addr + world.seed.randrange(section.size) // 4 * 4)


@mutation("PL510", ("booted 6.12",))
def hidden(world: BootedWorld) -> int:
    """A module that only mod_tree has."""
    planted = Planted(world)
    node, module = planted.start, planted.start + 512
    planted.set_member(node, "mod_tree_node.mod", module)
    tree = planted.place("mod_tree") + planted.offset("mod_tree_root.root.tree")
    planted.set(tree, node + planted.offset("mod_tree_node.node"))
    return module


_LINEAR = 0xFFFF_0000_0000_0000
_BLOCK = 1 << 21
_TABLES = 0xFFFF_0000_4000_0000  # in the linear map
_SHIFTS = (39, 30, 21)  # of an index of the top table, of the next, and of one of blocks


@mutation("PL511", ("booted 6.12",))
def executable(world: BootedWorld) -> int:
    """Page tables that let the kernel execute a block of two megabytes, far from all that is there, and its own."""
    planted = Planted(world)
    world.kernel.info = replace(world.kernel.info, numbers={"PAGESIZE": 4096, "VA_BITS": 48, "TCR_EL1_T1SZ": 16})
    planted.set(planted.place("memstart_addr"), 0)
    vaddr = 0xFFFF_9000_0000_0000 + world.seed.randrange(1 << 20) * _BLOCK
    pages = {planted.place("swapper_pg_dir"): bytearray(4096)}
    for block in (planted.place("_stext"), vaddr):
        table = planted.place("swapper_pg_dir")
        for shift in _SHIFTS:
            below = _TABLES + 4096 * len(pages)
            entry = 0x4000_0000 | 1 if shift == _SHIFTS[-1] else below - _LINEAR | 3
            struct.pack_into("<Q", pages[table], 8 * (block >> shift & 511), entry)
            if shift != _SHIFTS[-1]:
                pages[below] = bytearray(4096)
                table = below
    for place, page in pages.items():
        planted.map(place, bytes(page))
    return vaddr


@mutation("PL512", ("booted 6.12",))
def written(world: BootedWorld) -> set[int]:
    """A bit that somebody wrote, of read-only data: of a string or a table, mostly."""
    world.judge = audit
    start, end = (world.symbol(name).vaddr for name in ("__start_rodata", "__start_ro_after_init"))
    return {world.flipped(world.seed.randrange(start, end, 8))}


@mutation("PL513", RECORDED)
def unlisted_write(world: RecordedWorld) -> int:
    """An instruction off the list is written live where no CPU had executed anything."""
    row = world.some_row()
    world.rows[world.seed.choice(("old", "new"))][row] = world.seed.choice(OFF_LIST)
    world.rows["flags"][row] = 0
    return int(world.rows["address"][row])


@mutation("PL514", ("booted 6.12",))
def uncounted(world: BootedWorld) -> int:
    """An ftrace_ops on the list that traces everything, and a record that counts no user."""
    planted = Planted(world)
    place = int(world.seed.choice(world.sites.second.tolist()))
    ops = planted.register(planted.place("ftrace_stub"))
    planted.set_member(ops, "ftrace_ops.flags", 1)  # FTRACE_OPS_FL_ENABLED
    page, record = ops + 1280, ops + 1536
    planted.set_member(page, "ftrace_page.records", record)
    world.write(world.offset(page + planted.offset("ftrace_page.index")), struct.pack("<I", 1))
    planted.set_member(record, "dyn_ftrace.ip", place)
    start, zeros = planted.place("ftrace_pages_start"), bytearray(4096)  # in .bss, which the file does not have
    struct.pack_into("<Q", zeros, start & 4095, page)
    planted.map(start & ~4095, bytes(zeros))
    return place


_PAGE = 0xFFFF_8000_7000_0000  # has the module's struct, and from here on its text
_TEXT = _PAGE + 0x800
_UNSIGNED = 1 << 13  # TAINT_UNSIGNED_MODULE


@mutation("PL515", ("booted 6.12",))
def unsigned(world: BootedWorld) -> int:
    """A registered ftrace_ops whose callback is in a module that is listed and unsigned."""
    planted = Planted(world)
    page, modules = bytearray(4096), planted.place("modules")
    for path, value in (("module.list", modules), ("module.taints", _UNSIGNED), ("module.mem", _TEXT)):
        struct.pack_into("<Q", page, planted.offset(path), value)
    size = planted.offset("module.mem") + planted.offset("module_memory.size")
    struct.pack_into("<I", page, size, world.seed.randrange(64, 1024) & ~3)
    planted.map(_PAGE, bytes(page))
    planted.set(modules, _PAGE + planted.offset("module.list"))
    return planted.register(_TEXT)
