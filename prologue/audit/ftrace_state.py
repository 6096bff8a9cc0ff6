"""What ftrace says of itself in memory: which ops are registered, and which sites are being traced.

``struct ftrace_ops`` begins with func, next, flags (include/linux/ftrace.h, 5.5-7.2). ``struct ftrace_page`` (
kernel/trace/ftrace.c) has next, records, index; ``struct dyn_ftrace`` has ip and flags, on arm64 nothing else.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U64
from prologue.audit.locks import is_held
from prologue.audit.variables import Variables
from prologue.sites.kernel import Kernel

_FUNC, _NEXT = 0, 8
_PAGE_RECORDS, _PAGE_INDEX = 8, 16
_RECORD: Final = 16
ENABLED, REGS_ENABLED = np.uint64(1 << 31), np.uint64(1 << 29)  # FTRACE_FL_ENABLED, FTRACE_FL_REGS_EN
_MOST: Final = 100_000  # ops or pages: a list that is longer is none
# LDR X17, [X11, #offset]: ftrace_caller loads ops->direct_call (arch/arm64/kernel/entry-ftrace.S, 6.4-7.2).
_LOADS_DIRECT: Final = (0xFFC003FF, 0xF9400171)


class Ops(NamedTuple):
    """Run-time addresses of the registered ``ftrace_ops``; not ``complete`` if the list leads to unread memory.

    One that is being unregistered counts: its sites are patched after it left the list.
    """

    places: frozenset[int]
    complete: bool


class LiveRecords(NamedTuple):
    """``dyn_ftrace`` records: run-time address of each second slot, ascending, and flags; shape (n,)."""

    places: U64
    flags: U64


class FtraceState:
    """Read once for a kernel and all of its modules."""

    def __init__(self, kernel: Kernel, slide: int, variables: Variables, *, realtime: bool) -> None:
        self._kernel = kernel
        self._slide = slide
        self._variables = variables
        self.busy = is_held(variables, "ftrace_lock", realtime=realtime)
        self.idle_ops = variables.place("ftrace_nop_ops")
        self.list_ops = variables.place("ftrace_list_ops")

    @cached_property
    def trampolines(self) -> frozenset[int]:
        """Run-time addresses of ftrace's own entry points."""
        names = ("ftrace_caller", "ftrace_regs_caller")
        return frozenset(place for name in names if (place := self._variables.place(name)) is not None)

    @cached_property
    def ops(self) -> Ops:
        """Walk ``ftrace_ops_list`` to ``ftrace_list_end``.

        ``ftrace_shutdown`` (kernel/trace/ftrace.c, 5.5-7.2) takes an ops off the list, makes it ``removed_ops``, and
        then patches.
        """
        end = self._variables.place("ftrace_list_end")
        here, found = self._variables.number("ftrace_ops_list"), set[int]()
        leaving = self._variables.number("removed_ops") if self.busy else None
        while here and here != end:
            if here in found or len(found) > _MOST:
                return Ops(frozenset(found), complete=False)
            found.add(here)
            here = self._variables.quad(here + _NEXT)
        found |= {leaving} if leaving else set()
        return Ops(frozenset(found), complete=here is not None and end is not None)

    def may_be_leaving(self, ops: int) -> bool:
        """Whether it may be an ops that is about to be ``removed_ops``: who holds ``ftrace_lock`` counts records first.

        What says that it is one is its function, which is the kernel's.
        """
        func = self._variables.quad(ops + _FUNC) if self.busy else None
        return (
            func is not None and self._kernel.image.section_at(func - self._slide) in self._kernel.image.text_sections
        )

    @cached_property
    def records(self) -> LiveRecords | None:
        """Every record of ``ftrace_pages_start``; None if some cannot be read."""
        here = self._variables.number("ftrace_pages_start")
        if here is None:
            return None
        parts, seen = [np.zeros((0, 2), np.uint64)], set[int]()
        while here:
            records, index = self._variables.quad(here + _PAGE_RECORDS), self._variables.read(here + _PAGE_INDEX, 4)
            if here in seen or records is None or index is None:
                return None
            seen.add(here)
            data = self._variables.read(records, int.from_bytes(index, "little") * _RECORD) if any(index) else b""
            after = self._variables.quad(here)
            if data is None or after is None:
                return None
            parts.append(np.frombuffer(data, "<u8").reshape(-1, 2).astype(np.uint64))
            here = after
        table = np.concatenate(parts)
        order = np.argsort(table[:, 0], kind="stable")
        return LiveRecords(table[order, 0], table[order, 1])

    def direct_call(self, ops: int) -> int | None:
        """Where an ops sends its functions without ftrace; None for nowhere, or if that is not known."""
        offset = self._direct_offset
        return None if offset is None else self._variables.quad(ops + offset) or None

    @cached_property
    def _direct_offset(self) -> int | None:
        caller = self._kernel.symbols.find("ftrace_caller")
        code = self._kernel.image.read_at(caller.vaddr, min(caller.size, 64)) if caller else None
        mask, value = _LOADS_DIRECT
        for word in np.frombuffer(code or b"", "<u4").tolist():
            if word & mask == value:
                return int(word >> 10 & 0xFFF) * 8
        return None
