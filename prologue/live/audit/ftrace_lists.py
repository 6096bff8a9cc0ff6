"""ftrace's lists in memory: which ops are registered, and the records of all sites.

``struct ftrace_ops`` and ``struct dyn_ftrace`` are in include/linux/ftrace.h, ``struct ftrace_page`` in
kernel/trace/ftrace.c (5.5-7.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U64
from prologue.live.audit.layouts import Layouts
from prologue.live.audit.variables import Variables

ENABLED: Final = np.uint64(1 << 31)  # FTRACE_FL_ENABLED
# LDR X17, [X11, #offset]: ftrace_caller loads ops->direct_call (arch/arm64/kernel/entry-ftrace.S, 6.4-7.3).
_LOADS_DIRECT: Final = (0xFFC003FF, 0xF9400171)
_MOST_BITS: Final = 24  # FTRACE_HASH_MAX_BITS is 12
_MOST_RECORDS: Final = 1 << 22  # of one ftrace_page: more are damage
_MOST: Final = 100_000  # ops or pages: a longer list is damage


class Ops(NamedTuple):
    """Run-time addresses of the registered ``ftrace_ops``; not ``complete`` if the list leads to unread memory.

    An ops that is being unregistered counts: its sites are patched after it left the list.
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
    end, following = variables.place("ftrace_list_end"), variables.layouts.get("ftrace_ops.next")
    here, places = variables.number("ftrace_ops_list"), set[int]()
    leaving = variables.number("removed_ops") if busy else None
    while here and here != end:
        if following is None or here in places or len(places) > _MOST:
            return Ops(frozenset(places), complete=False)
        places.add(here)
        here = variables.quad(here + following)
    places |= {leaving} if leaving else set()
    return Ops(frozenset(places), complete=here is not None and end is not None)


def direct_call_offset(layouts: Layouts, caller: bytes) -> int | None:
    """Find the offset in an ops of the address that it sends calls to; None if it has none, or if that is not known.

    It depends on the kernel's settings: types have it, otherwise the code of ``ftrace_caller``, which begins with
    ``caller``.
    """
    known = layouts.get("ftrace_ops.direct_call")
    if known is not None or layouts.exact:
        return known
    mask, value = _LOADS_DIRECT
    for word in np.frombuffer(caller[: len(caller) & ~3], "<u4").tolist():
        if word & mask == value:
            return int(word >> 10 & 0xFFF) * 8
    return None


def direct_targets(variables: Variables) -> Mapping[int, int]:
    """Read ``direct_functions``: where each direct call leads, by run-time address of its second slot.

    Empty if the kernel has no such table, or types do not say how it is laid out. Entries after damage are left out.
    """
    names = ("ftrace_hash.size_bits", "ftrace_hash.buckets", "ftrace_func_entry.ip", "ftrace_func_entry.direct")
    table, members = variables.number("direct_functions"), variables.layouts.all_of(*names)
    if not table or members is None:
        return {}
    to_bits, to_buckets, to_ip, to_direct = members
    bits, buckets = variables.quad(table + to_bits), variables.quad(table + to_buckets)
    heads = variables.read(buckets, 8 << bits) if buckets and bits is not None and bits <= _MOST_BITS else None
    targets: dict[int, int] = {}
    for head in np.frombuffer(heads or b"", "<u8").tolist():
        here: int | None = head
        while here and len(targets) < _MOST:
            ip, target = variables.quad(here + to_ip), variables.quad(here + to_direct)
            if ip is None or target is None or ip in targets:
                break
            targets[ip] = target
            here = variables.quad(here)  # hlist is the first member of ftrace_func_entry
    return targets


def all_records(variables: Variables) -> LiveRecords | None:
    """Read every record of ``ftrace_pages_start``; None if some cannot be read."""
    here = variables.number("ftrace_pages_start")
    members = variables.layouts.all_of("ftrace_page.next", "ftrace_page.records", "ftrace_page.index", "dyn_ftrace")
    shape = variables.layouts.all_of("dyn_ftrace.ip", "dyn_ftrace.flags")
    if here is None or members is None or shape is None:
        return None
    (to_next, to_records, to_index, each), (ip, flags) = members, shape
    if max(ip, flags) + 8 > each:
        return None
    record = np.dtype({"names": ["ip", "flags"], "formats": ["<u8", "<u8"], "offsets": [ip, flags], "itemsize": each})
    parts, seen = [np.zeros(0, record)], set[int]()
    while here:
        records, index = variables.quad(here + to_records), variables.read(here + to_index, 4)
        if here in seen or records is None or index is None or int.from_bytes(index, "little") > _MOST_RECORDS:
            return None
        seen.add(here)
        data = variables.read(records, int.from_bytes(index, "little") * each) if any(index) else b""
        after = variables.quad(here + to_next)
        if data is None or after is None:
            return None
        parts.append(np.frombuffer(data, record))
        here = after
    table = np.concatenate(parts)
    table = table[np.argsort(table["ip"], kind="stable")]
    return LiveRecords(table["ip"].astype(np.uint64), table["flags"].astype(np.uint64))
