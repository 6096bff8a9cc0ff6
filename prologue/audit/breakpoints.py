"""Breakpoints in text: those of kprobes and of kgdb. Each covers a word that another mechanism may own.

``struct kprobe`` begins with hlist (16 bytes), list (16), nmissed (8), addr (8), symbol_name (8), offset (4, padded),
pre_handler (8), post_handler (8), before 5.14 fault_handler (8), opcode (4, padded), and then what arm64 needs for the
copied instruction (include/linux/kprobes.h, 5.10-7.3). ``struct kgdb_bkpt``: bpt_addr (8), saved_instr (4), type (4),
state (4), padded (include/linux/kgdb.h, 5.10-7.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.audit.variables import Variables

KPROBE_BRK: Final = 0xD4200080  # BRK #4, KPROBES_BRK_IMM (arch/arm64/include/asm/brk-imm.h, 6.1-7.2)
KGDB_BRK: Final = 0xD4208000  # BRK #0x400, KGDB_DYN_DBG_BRK_IMM
_AFTER_COPY: Final = 0xD42000C0  # BRK #6, KPROBES_BRK_SS_IMM: what follows a copied instruction
_BUCKETS, _KPROBE, _ADDR = 64, 104, 40
_OPCODES: Final = (80, 88)  # where the opcode may be: the latter, if fault_handler is before it
_COPIES: Final = (88, 96)  # where the pointer to the copy may be: it moved in 5.14, and in 6.13
_MOST: Final = 100_000  # kprobes: a list that is longer is none
_KGDB_ENTRY, _KGDB_ACTIVE = 24, 3
# "report_probe" in kernel/kprobes.c: address, k or r, symbol+offset, module, flags.
_LISTED: Final = re.compile(r"([0-9a-f]+)\s+[kr]\s")
_OFF: Final = re.compile(r"\[(GONE|DISABLED)\]")


class Breakpoint(NamedTuple):
    """One, by run-time address.

    ``original`` is None if only its address is known. ``copy`` is the word that the kernel executes instead, None if
    there is none or it cannot be read.
    """

    vaddr: int
    brk: int
    original: int | None
    copy: int | None = None


class Breakpoints(NamedTuple):
    """All of them by address, and whether the kernel's own tables could be read to their ends."""

    at: dict[int, Breakpoint]
    complete: bool


def find_breakpoints(variables: Variables, listed: Iterable[str]) -> Breakpoints:
    """Those in the kernel's tables, and those in the lines of ``/sys/kernel/debug/kprobes/list``."""
    lines = list(listed)
    found = {int(match[1], 16): Breakpoint(int(match[1], 16), KPROBE_BRK, None) for match in _armed(lines)}
    walked = _kprobes(variables)
    if walked is not None:
        found = {one.vaddr: one for one in walked}
    found |= {one.vaddr: one for one in _kgdb(variables)}
    return Breakpoints(found, complete=walked is not None or bool(lines))


def _armed(listed: Iterable[str]) -> Iterator[re.Match[str]]:
    for line in listed:
        match = _LISTED.match(line)
        if match and not _OFF.search(line):
            yield match


def _kprobes(variables: Variables) -> list[Breakpoint] | None:
    """Walk ``kprobe_table``; None if it leads to memory that cannot be read, or to none of its own."""
    place = variables.place("kprobe_table")
    table = None if place is None else variables.read(place, 8 * _BUCKETS)
    if table is None:
        return None
    found: list[Breakpoint] = []
    level = [int(node) for node in np.frombuffer(table, "<u8") if node]
    while level:
        variables.fetch({page for node in level for page in (node >> 12, node + _KPROBE >> 12)})
        following = []
        for node in level:
            data = variables.read(node, _KPROBE)
            if data is None or len(found) > _MOST:
                return None
            found.append(_kprobe(variables, data))
            following += [int.from_bytes(data[:8], "little")]
        level = [node for node in following if node]
    return found


def _kprobe(variables: Variables, data: bytes) -> Breakpoint:
    vaddr = int.from_bytes(data[_ADDR : _ADDR + 8], "little")
    original = _opcode(data)
    copy = None
    for offset in _COPIES:
        code = variables.read(int.from_bytes(data[offset : offset + 8], "little"), 8)
        if code is not None and int.from_bytes(code[4:], "little") == _AFTER_COPY:
            copy = int.from_bytes(code[:4], "little")
            break
    return Breakpoint(vaddr, KPROBE_BRK, original, copy)


def _opcode(data: bytes) -> int:
    """The instruction under the probe: never 0, and its padding is; a handler is 0 or an address."""
    first, second = (int.from_bytes(data[at : at + 8], "little") for at in _OPCODES)
    return first if 0 < first < 1 << 32 else second & 0xFFFFFFFF


def _kgdb(variables: Variables) -> Iterator[Breakpoint]:
    place, size = variables.place("kgdb_break"), variables.size("kgdb_break")
    table = None if place is None else variables.read(place, size)
    for at in range(0, len(table or b"") - _KGDB_ENTRY + 1, _KGDB_ENTRY):
        entry = (table or b"")[at : at + _KGDB_ENTRY]
        if int.from_bytes(entry[16:20], "little") == _KGDB_ACTIVE:
            yield Breakpoint(int.from_bytes(entry[:8], "little"), KGDB_BRK, int.from_bytes(entry[8:12], "little"))
