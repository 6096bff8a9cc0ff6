"""ftrace's lists in memory: which ops are registered, hashes of functions, and the records of all sites.

``struct ftrace_ops`` and ``struct dyn_ftrace`` are in include/linux/ftrace.h, ``struct ftrace_page`` in
kernel/trace/ftrace.c, ``ftrace_hash`` and ``ftrace_func_entry`` in kernel/trace/trace.h (5.5-7.3). Walkers raise what
``Objects.read`` raises; callers decide what that means.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U64
from prologue.live.structs.layouts import Layouts
from prologue.live.structs.objects import NotKnownError, NotReadError, Objects

ENABLED: Final = np.uint64(1 << 31)  # FTRACE_FL_ENABLED
# LDR X17, [X11, #offset]: ftrace_caller loads ops->direct_call (arch/arm64/kernel/entry-ftrace.S, 6.4-7.3).
_LOADS_DIRECT: Final = (0xFFC003FF, 0xF9400171)
_MOST_BITS: Final = 24  # FTRACE_HASH_MAX_BITS is 12; a hash with more buckets than 2^24 is damaged memory


class LiveRecords(NamedTuple):
    """``dyn_ftrace`` records: run-time address of each second slot, ascending, and flags; shape (n,)."""

    places: U64
    flags: U64


def registered(objects: Objects) -> Iterator[int]:
    """Yield every ``ftrace_ops`` on the list, in the order in which they are called."""
    yield from objects.chain(objects.variable("ftrace_ops_list"), "ftrace_ops.next", objects.place("ftrace_list_end"))


def direct_call_offset(layouts: Layouts, caller: bytes) -> int | None:
    """Find the offset in an ops of the address that it sends calls to; None if it has none, or if that is not known.

    It depends on the kernel's settings: types have it, otherwise the code of ``ftrace_caller``, which begins with
    ``caller``.
    """
    known = layouts.get("ftrace_ops.direct_call")
    if known is not None or layouts.types is not None:
        return known
    mask, value = _LOADS_DIRECT
    for word in np.frombuffer(caller[: len(caller) & ~3], "<u4").tolist():
        if word & mask == value:
            return int(word >> 10 & 0xFFF) * 8
    return None


def direct_targets(objects: Objects) -> dict[int, int]:
    """Read ``direct_functions``: where each direct call leads, by run-time address of its second slot.

    Empty if the kernel has no such table.
    """
    table = objects.variable("direct_functions") if objects.has("direct_functions") else 0
    return read_hash(objects, table)


def read_hash(objects: Objects, place: int) -> dict[int, int]:
    """Return the functions of the ``ftrace_hash`` at ``place``, by their second slots, and what each leads to.

    Ascending run-time addresses; none if there is no hash.

    Raises:
        NotKnownError: memory or types do not have it, or its count is not that of its entries.

    """
    if not place:
        return {}
    bits, count = objects.get(place, "ftrace_hash.size_bits"), objects.count(place, "ftrace_hash.count", 8)
    if bits > _MOST_BITS:
        raise NotReadError(f"an ftrace_hash of 2^{bits} buckets at {place:#x}")
    if not count:
        return {}
    buckets = np.frombuffer(objects.read(objects.get(place, "ftrace_hash.buckets"), 8 << bits), "<u8")
    to_ip = objects.offset("ftrace_func_entry.ip")
    to_direct = objects.offset("ftrace_func_entry.direct") if objects.knows("ftrace_func_entry.direct") else None
    entries = []
    for first in buckets[buckets != 0].tolist():
        entry = first
        while entry:
            direct = 0 if to_direct is None else objects.number(entry + to_direct)
            entries.append((objects.number(entry + to_ip), direct))
            entry = objects.number(entry)
            if len(entries) > count:
                raise NotReadError(f"the ftrace_hash at {place:#x} counts {count:,} entries, and has more")
    if len(entries) != count:
        raise NotReadError(f"the ftrace_hash at {place:#x} counts {count:,} entries, and has {len(entries):,}")
    return dict(sorted(entries))


def read_records(objects: Objects) -> LiveRecords:
    """Read every record of ``ftrace_pages_start``."""
    each = objects.size("dyn_ftrace")
    ip, flags = objects.offset("dyn_ftrace.ip"), objects.offset("dyn_ftrace.flags")
    if max(ip, flags) + 8 > each:
        raise NotKnownError(f"a struct dyn_ftrace of {each} bytes")
    record = np.dtype({"names": ["ip", "flags"], "formats": ["<u8", "<u8"], "offsets": [ip, flags], "itemsize": each})
    parts = [np.zeros(0, record)]
    for page in objects.chain(objects.variable("ftrace_pages_start"), "ftrace_page.next"):
        records, count = objects.get(page, "ftrace_page.records"), objects.count(page, "ftrace_page.index")
        parts.append(np.frombuffer(objects.read(records, count * each) if count else b"", record))
    table = np.concatenate(parts)
    table = table[np.argsort(table["ip"], kind="stable")]
    return LiveRecords(table["ip"].astype(np.uint64), table["flags"].astype(np.uint64))
