"""Structs that a booted kernel's lists lead to; they take the place of its first task, which has no filters."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

from prologue.dwarf.struct_types import StructTypes, struct_types
from prologue.elf.image import ElfImage
from prologue.live.hooks.run import audit
from tests.mutation.booted import BootedWorld

ROOM = 2048  # bytes that are free


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
