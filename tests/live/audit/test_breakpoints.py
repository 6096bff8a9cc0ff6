"""Breakpoints of kprobes where memory has the table and not what it leads to, as perf's copy of kcore; and kgdb's."""

from __future__ import annotations

import struct
from typing import Any, cast

import pytest

from prologue.insn import a64
from prologue.live.audit.breakpoints import KGDB_BRK, KPROBE_BRK, Breakpoint, find_breakpoints
from prologue.live.structs.layouts import by_release

NOP = a64.NOP.to_bytes(4, "little")
TABLE, KPROBES = 0xFFFF800080001000, 0xFFFF800080002000
NODE, PLACE = 0xFFFF000000008000, 0xFFFF800008001000


class MadeVariables:
    """A kprobe table with one entry, whose memory may be missing; or a vmlinux that does not name the table."""

    layouts = by_release((6, 12), realtime=False)
    partial = False

    def __init__(self, *, has_table: bool, has_heap: bool) -> None:
        self._memory = {TABLE: NODE.to_bytes(8, "little").ljust(8 * 64, b"\0")} if has_table else {}
        if has_heap:
            probe = bytearray(104)
            probe[40:48] = PLACE.to_bytes(8, "little")
            self._memory[NODE] = bytes(probe)

    def place(self, name: str) -> int | None:
        return TABLE if name == "kprobe_table" and TABLE in self._memory else None

    def size(self, _: str) -> int:
        return 8 * 64

    def read(self, vaddr: int, size: int) -> bytes | None:
        return next(
            (data[vaddr - at :][:size] for at, data in self._memory.items() if at <= vaddr < at + len(data)), None
        )

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


class KgdbVariables:
    """``kgdb_break`` with four entries, one for each state of a breakpoint (``enum kgdb_bpstate``)."""

    layouts = by_release((6, 12), realtime=False)
    partial = False

    def __init__(self, size: int) -> None:
        self._size = size
        entries = (struct.pack("<Q4sIII", PLACE + 64 * state, NOP, 0, state, 0) for state in range(4))
        self._table = b"".join(entries)

    def place(self, name: str) -> int | None:
        return TABLE if name == "kgdb_break" else None

    def size(self, _: str) -> int:
        return self._size

    def read(self, vaddr: int, size: int) -> bytes | None:
        data = self._table[vaddr - TABLE :][:size] if vaddr >= TABLE else b""
        return data if len(data) == size else None


def test_kgdb_has_those_that_are_active() -> None:
    """One that is removed, or set and not yet written, covers nothing; a table that memory lacks names none."""
    found = find_breakpoints(cast("Any", KgdbVariables(96)), ())
    assert found.at == {PLACE + 192: Breakpoint(PLACE + 192, 0xD4208000, int.from_bytes(NOP, "little"))}
    assert not found.complete  # that is said of kprobes
    assert found.unlisted == (KPROBE_BRK,)
    lacking = find_breakpoints(cast("Any", KgdbVariables(120)), ())
    assert lacking.at == {}
    assert lacking.unlisted == (KPROBE_BRK, KGDB_BRK)  # each BRK of kgdb may be in the table


def test_kgdb_over_a_kprobe_covers_what_that_covers() -> None:
    """What kgdb saved is the breakpoint of the kprobe, which is no instruction of the kernel's."""

    class Both(KgdbVariables):
        def place(self, name: str) -> int | None:
            return KPROBES if name == "kprobe_table" else super().place(name)

        def read(self, vaddr: int, size: int) -> bytes | None:
            made = {KPROBES: NODE.to_bytes(8, "little").ljust(8 * 64, b"\0"), NODE: bytes(probe)}
            parts = (data[vaddr - at :][:size] for at, data in made.items() if at <= vaddr < at + len(data))
            return next(parts, None) or super().read(vaddr, size)

        def size(self, name: str) -> int:
            return 8 * 64 if name == "kprobe_table" else super().size(name)

    probe = bytearray(104)
    struct.pack_into("<Q", probe, 40, PLACE + 192)
    probe[80:84] = NOP
    variables = Both(96)
    variables._table = variables._table.replace(NOP, KPROBE_BRK.to_bytes(4, "little"))
    variables.fetch = lambda _: None  # type: ignore[attr-defined]
    assert find_breakpoints(cast("Any", variables), ()).at == {PLACE + 192: Breakpoint(PLACE + 192, KGDB_BRK, a64.NOP)}


def test_kgdb_of_a_release_that_is_not_known() -> None:
    variables = KgdbVariables(96)
    variables.layouts = by_release((9, 9), realtime=False)
    assert KGDB_BRK in find_breakpoints(cast("Any", variables), ()).unlisted


@pytest.mark.parametrize(("version", "at"), [((5, 10), 88), ((6, 1), 80), ((7, 2), 80)])
def test_what_a_kprobe_covers_is_where_that_release_has_it(version: tuple[int, int], at: int) -> None:
    """5.10 has a fault_handler before the opcode, which is zero: no word of the kernel."""
    probe = bytearray(136)
    struct.pack_into("<Q", probe, 40, PLACE)
    probe[at : at + 4] = NOP
    variables = MadeVariables(has_table=True, has_heap=False)
    variables._memory[NODE] = bytes(probe)
    variables.layouts = by_release(version, realtime=False)
    assert find_breakpoints(cast("Any", variables), ()).at[PLACE].original == a64.NOP
