"""Breakpoints of kprobes and kgdb in text. Each covers a word that another mechanism may own.

``struct kprobe`` is in include/linux/kprobes.h, its member for the copied instruction in
arch/arm64/include/asm/probes.h; ``struct kgdb_bkpt`` is in include/linux/kgdb.h (5.5-7.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import numpy as np

from prologue.live.memory.ranges import PAGE
from prologue.live.structs.objects import NotKnownError, Objects
from prologue.live.structs.variables import Variables

KPROBE_BRK: Final = 0xD4200080  # BRK #4, KPROBES_BRK_IMM (arch/arm64/include/asm/brk-imm.h, 6.1-7.2)
KGDB_BRK: Final = 0xD4208000  # BRK #0x400, KGDB_DYN_DBG_BRK_IMM
_AFTER_COPY: Final = 0xD42000C0  # BRK #6, KPROBES_BRK_SS_IMM: follows a copied instruction
_KGDB_ACTIVE: Final = 3  # BP_ACTIVE
# "report_probe" in kernel/kprobes.c: address, k or r, symbol+offset, module, flags.
_LISTED: Final = re.compile(r"([0-9a-f]+)\s+[kr]\s")
_OFF: Final = re.compile(r"\[(GONE|DISABLED)\]")


class Breakpoint(NamedTuple):
    """A breakpoint, by run-time address.

    ``original`` is None if only its address is known. ``copy`` is the word that the kernel executes instead, None if
    there is none or it cannot be read.
    """

    vaddr: int
    brk: int
    original: int | None
    copy: int | None = None

    @property
    def is_wrong(self) -> bool:
        """True if the copy is of another instruction."""
        return None not in (self.original, self.copy) and self.original != self.copy


class Breakpoints(NamedTuple):
    """All breakpoints by address, and whether the kernel's tables (kprobes, kgdb) could be read to their ends."""

    at: dict[int, Breakpoint]
    complete: bool
    kgdb_complete: bool = True

    @property
    def unlisted(self) -> tuple[int, ...]:
        """Words of breakpoints of which some may be in no list."""
        return (() if self.complete else (KPROBE_BRK,)) + (() if self.kgdb_complete else (KGDB_BRK,))


def find_breakpoints(variables: Variables, listed: Iterable[str]) -> Breakpoints:
    """Find breakpoints in the kernel's tables; if there is no table of kprobes, those in ``listed``.

    Args:
        variables: of the kernel.
        listed: lines of ``/sys/kernel/debug/kprobes/list``.

    """
    lines, objects = list(listed), Objects(variables)
    armed = (match for line in lines if (match := _LISTED.match(line)) and not _OFF.search(line))
    by_address = {vaddr: Breakpoint(vaddr, KPROBE_BRK, None) for vaddr in (int(match[1], 16) for match in armed)}
    complete, kgdb_complete, kgdb = bool(lines), False, list[Breakpoint]()
    with suppress(NotKnownError):
        by_address = {point.vaddr: point for point in _kprobes(objects)}
        complete = True
    with suppress(NotKnownError):
        kgdb = list(_kgdb(objects))
        kgdb_complete = True
    for point in kgdb:
        # Over a kprobe's, kgdb saved that BRK; a kprobe cannot be put on kgdb's (INSN_REJECTED).
        below = by_address.get(point.vaddr) if point.original == KPROBE_BRK else None
        by_address[point.vaddr] = point if below is None else below._replace(brk=KGDB_BRK)
    return Breakpoints(by_address, complete=complete, kgdb_complete=kgdb_complete)


def kprobes_on_table(objects: Objects) -> Iterator[int]:
    """Yield every ``struct kprobe`` of ``kprobe_table`` that has a place of its own; errors as ``Objects.read``."""
    buckets = objects.slots("kprobe_table")
    heads = np.frombuffer(objects.read(buckets.start, 8 * len(buckets)), "<u8")
    objects.variables.fetch({head // PAGE for head in heads[heads != 0].tolist()})  # with one question
    for bucket in buckets:
        yield from objects.hash_entries(bucket, "kprobe.hlist")


def _kprobes(objects: Objects) -> Iterator[Breakpoint]:
    """Yield the breakpoint of every kprobe in the kernel's table; errors as ``Objects.read``."""
    to_copy = objects.offset("kprobe.copy")
    for probe in kprobes_on_table(objects):
        copy = _copy(objects.variables, objects.number(probe + to_copy))
        original = objects.get(probe, "kprobe.opcode", 4)
        yield Breakpoint(objects.get(probe, "kprobe.addr"), KPROBE_BRK, original, copy)


def _copy(variables: Variables, vaddr: int) -> int | None:
    """Read the word that is executed instead, if the BRK that ends a copy follows it."""
    code = variables.read(vaddr, 8)
    if code is None or int.from_bytes(code[4:], "little") != _AFTER_COPY:
        return None
    return int.from_bytes(code[:4], "little")


def _kgdb(objects: Objects) -> Iterator[Breakpoint]:
    """Yield the breakpoints of ``kgdb_break``; none in a kernel without it; errors as ``Objects.read``."""
    if objects.maybe_place("kgdb_break") is None:
        return
    table, each = objects.slots("kgdb_break"), objects.size("kgdb_bkpt")
    for entry in range(table.start, table.stop - each + 1, each):
        if objects.get(entry, "kgdb_bkpt.state", 4) == _KGDB_ACTIVE:
            original = objects.get(entry, "kgdb_bkpt.saved_instr", 4)
            yield Breakpoint(objects.get(entry, "kgdb_bkpt.bpt_addr"), KGDB_BRK, original)
