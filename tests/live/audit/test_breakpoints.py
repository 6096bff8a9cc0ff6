"""Breakpoints of kprobes where memory has the table and not what it leads to, as perf's copy of kcore; and kgdb's."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, cast

import pytest

from prologue.insn import a64
from prologue.live.audit.breakpoints import KGDB_BRK, KPROBE_BRK, Breakpoint, Breakpoints, find_breakpoints
from prologue.live.structs.layouts import by_release

NOP = a64.NOP.to_bytes(4, "little")
TABLE, BREAKS = 0xFFFF800080001000, 0xFFFF800080002000
NODE, PLACE = 0xFFFF000000008000, 0xFFFF800008001000
KPROBES = {TABLE: NODE.to_bytes(8, "little").ljust(8 * 64, b"\0")}


class MadeVariables:
    """The tables of kprobes and kgdb, as far as memory has something there; no other variable."""

    partial = False

    def __init__(self, memory: Mapping[int, bytes], version: tuple[int, int], size: int) -> None:
        self._memory, self.layouts = memory, by_release(version, realtime=False)
        known = {"kprobe_table": (TABLE, 8 * 64), "kgdb_break": (BREAKS, size)}
        self._variables = {name: each for name, each in known.items() if each[0] in memory}

    def place(self, name: str) -> int | None:
        return self._variables.get(name, (None, 0))[0]

    def size(self, name: str) -> int:
        return self._variables[name][1]

    def read(self, vaddr: int, size: int) -> bytes | None:
        parts = (data[vaddr - at :][:size] for at, data in self._memory.items() if at <= vaddr < at + len(data))
        return next((part for part in parts if len(part) == size), None)

    def fetch(self, _: set[int]) -> None:
        """Nothing to do."""


def found(
    memory: Mapping[int, bytes], listed: tuple[str, ...] = (), version: tuple[int, int] = (6, 12), size: int = 96
) -> Breakpoints:
    return find_breakpoints(cast("Any", MadeVariables(memory, version, size)), listed)


def probe(place: int, opcode_at: int = 80) -> bytes:
    """A kprobe on a NOP."""
    data = bytearray(136)
    struct.pack_into("<Q", data, 40, place)
    data[opcode_at : opcode_at + 4] = NOP
    return bytes(data)


def breaks(saved: bytes = NOP) -> bytes:
    """``kgdb_break`` with four entries, one for each state of a breakpoint (``enum kgdb_bpstate``)."""
    return b"".join(struct.pack("<Q4sIII", PLACE + 64 * state, saved, 0, state, 0) for state in range(4))


@pytest.mark.parametrize(
    ("memory", "listed", "complete", "known"),
    [
        (KPROBES | {NODE: probe(PLACE)}, (), True, {PLACE}),
        (KPROBES, (), False, set()),  # any breakpoint may be a kprobe's
        (KPROBES, (f"{PLACE:x}  k  vfs_read+0x0",), True, {PLACE}),
        ({}, (), False, set()),
    ],
)
def test_whether_all_kprobes_are_known(
    memory: dict[int, bytes], listed: tuple[str, ...], complete: bool, known: set[int]
) -> None:
    points = found(memory, listed)
    assert (points.complete, set(points.at)) == (complete, known)


def test_kgdb_has_those_that_are_active() -> None:
    """One that is removed, or set and not yet written, covers nothing; a table that memory lacks names none."""
    points = found({BREAKS: breaks()})
    assert points.at == {PLACE + 192: Breakpoint(PLACE + 192, 0xD4208000, a64.NOP)}
    assert not points.complete  # that is said of kprobes
    assert points.unlisted == (KPROBE_BRK,)
    lacking = found({BREAKS: breaks()}, size=120)
    assert (lacking.at, lacking.unlisted) == ({}, (KPROBE_BRK, KGDB_BRK))  # each BRK of kgdb may be in the table


def test_kgdb_over_a_kprobe_covers_what_that_covers() -> None:
    """What kgdb saved is the breakpoint of the kprobe, which is no instruction of the kernel's."""
    both = KPROBES | {NODE: probe(PLACE + 192), BREAKS: breaks(KPROBE_BRK.to_bytes(4, "little"))}
    assert found(both).at == {PLACE + 192: Breakpoint(PLACE + 192, KGDB_BRK, a64.NOP)}


def test_kgdb_of_a_release_that_is_not_known() -> None:
    assert KGDB_BRK in found({BREAKS: breaks()}, version=(9, 9)).unlisted


@pytest.mark.parametrize(("version", "at"), [((5, 10), 88), ((6, 1), 80), ((7, 2), 80)])
def test_what_a_kprobe_covers_is_where_that_release_has_it(version: tuple[int, int], at: int) -> None:
    """5.10 has a fault_handler before the opcode, which is zero: no word of the kernel."""
    assert found(KPROBES | {NODE: probe(PLACE, at)}, version=version).at[PLACE].original == a64.NOP
