"""ftrace's lists in memory: which ops are registered, and the records of all sites.

``struct ftrace_ops`` begins with func, next, flags (include/linux/ftrace.h, 5.5-7.2). ``struct ftrace_page`` (
kernel/trace/ftrace.c) has next, records, index; ``struct dyn_ftrace`` has ip and flags, on arm64 nothing else.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U64
from prologue.audit.variables import Variables

FUNC, _NEXT = 0, 8
_PAGE_RECORDS, _PAGE_INDEX = 8, 16
_RECORD: Final = 16
ENABLED: Final = np.uint64(1 << 31)  # FTRACE_FL_ENABLED
_MOST: Final = 100_000  # ops or pages: a list that is longer is none


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


def registered_ops(variables: Variables, *, busy: bool) -> Ops:
    """Walk ``ftrace_ops_list`` to ``ftrace_list_end``; ``busy`` if ``ftrace_lock`` is held.

    ``ftrace_shutdown`` (kernel/trace/ftrace.c, 5.5-7.2) takes an ops off the list, makes it ``removed_ops``, and
    then patches.
    """
    end = variables.place("ftrace_list_end")
    here, found = variables.number("ftrace_ops_list"), set[int]()
    leaving = variables.number("removed_ops") if busy else None
    while here and here != end:
        if here in found or len(found) > _MOST:
            return Ops(frozenset(found), complete=False)
        found.add(here)
        here = variables.quad(here + _NEXT)
    found |= {leaving} if leaving else set()
    return Ops(frozenset(found), complete=here is not None and end is not None)


def all_records(variables: Variables) -> LiveRecords | None:
    """Every record of ``ftrace_pages_start``; None if some cannot be read."""
    here = variables.number("ftrace_pages_start")
    if here is None:
        return None
    parts, seen = [np.zeros((0, 2), np.uint64)], set[int]()
    while here:
        records, index = variables.quad(here + _PAGE_RECORDS), variables.read(here + _PAGE_INDEX, 4)
        if here in seen or records is None or index is None:
            return None
        seen.add(here)
        data = variables.read(records, int.from_bytes(index, "little") * _RECORD) if any(index) else b""
        after = variables.quad(here)
        if data is None or after is None:
            return None
        parts.append(np.frombuffer(data, "<u8").reshape(-1, 2).astype(np.uint64))
        here = after
    table = np.concatenate(parts)
    order = np.argsort(table[:, 0], kind="stable")
    return LiveRecords(table[order, 0], table[order, 1])
