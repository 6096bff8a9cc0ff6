"""How much of an ops a capture keeps: enough for a kernel with lockdep, and what there is at the end of memory."""

from __future__ import annotations

import struct
from typing import Any, cast

import pytest

from prologue.audit.structures import find_structures
from prologue.memory.base import PAGE, UnmappedError

DATA, END_OF_LIST, PLACE = 0xFFFF800080000000, 0xFFFF800080000100, 0xFFFF800081000000


class MadeMemory:
    """Two pages: the head of ftrace's list, and one that ends in ops."""

    live = True

    def __init__(self, ops: int) -> None:
        page = bytearray(b"?" * PAGE)
        struct.pack_into("<QQ", page, ops - PLACE, 0, END_OF_LIST)
        self._pages = {DATA: struct.pack("<Q", ops).ljust(PAGE, b"\0"), PLACE: bytes(page)}

    def read(self, vaddr: int, size: int) -> bytes:
        page, at = vaddr // PAGE * PAGE, vaddr % PAGE
        if page not in self._pages or at + size > PAGE:
            raise UnmappedError("nothing there")
        return self._pages[page][at : at + size]

    def read_many(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        return [self.read(*one) for one in ranges]


@pytest.mark.parametrize(("left", "kept"), [(PAGE, 512), (512, 512), (508, 320), (320, 320)])
def test_an_ops_near_the_end_of_mapped_memory(left: int, kept: int) -> None:
    ops = PLACE + PAGE - left
    memory = cast("Any", MadeMemory(ops))
    found = find_structures(memory, {"ftrace_ops_list": DATA, "ftrace_list_end": END_OF_LIST})
    assert {vaddr: len(data) for vaddr, data in found.pieces} == {DATA: 8, ops: kept}
    assert not found.whole  # neither records nor kprobes
