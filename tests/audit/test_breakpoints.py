"""Breakpoints of kprobes where memory has the table and not what it leads to, as perf's copy of kcore."""

from __future__ import annotations

from typing import Any, cast

import pytest

from prologue.audit.breakpoints import find_breakpoints

TABLE, NODE, PLACE = 0x1000, 0x8000, 0xFFFF800008001000


class MadeVariables:
    """A kprobe table with one entry, whose memory may be missing; or a vmlinux that does not name the table."""

    def __init__(self, *, has_table: bool, has_heap: bool) -> None:
        self._memory = {TABLE: NODE.to_bytes(8, "little").ljust(8 * 64, b"\0")} if has_table else {}
        if has_heap:
            probe = bytearray(104)
            probe[40:48] = PLACE.to_bytes(8, "little")
            self._memory[NODE] = bytes(probe)

    def place(self, name: str) -> int | None:
        return TABLE if name == "kprobe_table" and TABLE in self._memory else None

    def size(self, _: str) -> int:
        return 0

    def read(self, vaddr: int, size: int) -> bytes | None:
        return self._memory.get(vaddr, b"")[:size] or None

    def fetch(self, _: set[int]) -> None:
        """Nothing to do."""


@pytest.mark.parametrize(
    ("has_table", "has_heap", "listed", "complete", "known"),
    [
        (True, True, (), True, {PLACE}),
        (True, False, (), False, set()),  # any breakpoint may be a kprobe's
        (True, False, (f"{PLACE:x}  k  vfs_read+0x0",), True, {PLACE}),
        (False, False, (), False, set()),
    ],
)
def test_whether_all_kprobes_are_known(
    has_table: bool, has_heap: bool, listed: tuple[str, ...], complete: bool, known: set[int]
) -> None:
    variables = cast("Any", MadeVariables(has_table=has_table, has_heap=has_heap))
    found = find_breakpoints(variables, listed)
    assert found.complete == complete
    assert set(found.at) == known
