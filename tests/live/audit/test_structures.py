"""How much of an ops a capture keeps: enough for a kernel with lockdep, and what there is at the end of memory."""

from __future__ import annotations

import struct
from typing import Any, cast

import pytest

from prologue.live.audit.structures import ListStarts, find_structures
from prologue.live.memory.ranges import PAGE, UnmappedError
from prologue.live.structs.layouts import Layouts, by_release
from prologue.live.structs.variables import KeptVariables

DIRECT = 0xFFFF800080123450
DATA, END_OF_LIST, PLACE = 0xFFFF800080000000, 0xFFFF800080000100, 0xFFFF800081000000
HEADS = {"ftrace_ops_list": DATA, "ftrace_list_end": END_OF_LIST}


class MadeMemory:
    """Two pages: the head of ftrace's list, and one that ends in ops."""

    live = True

    def __init__(self, ops: int, direct: int = 8) -> None:
        page = bytearray(b"?" * PAGE)
        struct.pack_into("<Q", page, ops - PLACE + direct, DIRECT)
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
    found = find_structures(memory, ListStarts(HEADS, by_release((6, 12), realtime=False), ()))
    assert {vaddr: len(data) for vaddr, data in found.pieces} == {DATA: 8, ops: kept}
    assert not found.whole  # neither records nor kprobes


LOCKDEP = {"ftrace_ops": 472, "ftrace_ops.next": 8, "ftrace_ops.direct_call": 464}


@pytest.mark.parametrize(
    ("starts", "kept"),
    [
        (ListStarts(HEADS, Layouts("from BTF", LOCKDEP), (464,)), 472),
        (ListStarts(HEADS, by_release((6, 12), realtime=False), (464,)), 512),
        (ListStarts(HEADS, by_release((6, 12), realtime=False), range(0, 512, 8)), 512),
    ],
)
def test_where_an_ops_sends_its_calls_is_among_what_must_agree(starts: ListStarts, kept: int) -> None:
    """With CONFIG_PROVE_LOCKING it is 464 bytes from the begin of the struct."""
    memory = cast("Any", MadeMemory(PLACE, direct=464))
    found = find_structures(memory, starts)
    assert (PLACE, kept) in {(vaddr, len(data)) for vaddr, data in found.pieces}
    sends = cast("frozenset[tuple[int, int]]", found.deciding[1])
    assert (PLACE + 464, DIRECT) in sends


def test_a_core_has_room_for_the_pieces() -> None:
    """A direct call for each of 70,000 functions: what lies between two of them in a page is kept, too."""

    class Zeros:
        live = True

        def read(self, vaddr: int, size: int) -> bytes:
            return bytes(size)

        def read_many(self, ranges: list[tuple[int, int]]) -> list[bytes]:
            return [self.read(*one) for one in ranges]

    variables = KeptVariables(cast("Any", Zeros()), None, 0, by_release((6, 12), realtime=False))
    for k in range(70_000):
        variables.read(PLACE + 16 * k, 8)
    (piece,) = variables.pieces()
    assert (piece[0], len(piece[1])) == (PLACE, 16 * 69_999 + 8)
