"""Three views of direct calls: the table ``direct_functions``, the ``ftrace_ops`` that are DIRECT, and the records.

A function with a direct call has a target in the table, is in the filter of one such ops, and its record says DIRECT
(``register_ftrace_direct``, ``update_ftrace_direct_add``, ``__ftrace_hash_rec_update``; kernel/trace/ftrace.c,
6.4-7.3). An ops of one target has it as ``direct_call``; with ``CONFIG_HAVE_SINGLE_FTRACE_DIRECT_OPS`` (7.0 and later)
an ops may be for many, and then that is 0: the table alone has the targets.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.live.hooks.ftrace_hooks import read_ops_hash
from prologue.live.hooks.ftrace_views import OPS_ENABLED, is_skipped, suspect_of
from prologue.live.hooks.inventory import Inventory
from prologue.live.structs.ftrace_lists import LiveRecords, direct_targets, read_records, registered
from prologue.live.structs.objects import Objects
from prologue.rules.base import Hit

_OPS_DIRECT: Final = 1 << 17  # FTRACE_OPS_FL_DIRECT (include/linux/ftrace.h, 6.4-7.3)
_DIRECT: Final = np.uint64(1 << 24)  # FTRACE_FL_DIRECT


def disputed_direct_calls(inventory: Inventory) -> Iterator[Hit]:
    """Yield functions of whose direct calls two views disagree.

    Raises:
        NotKnownError: a list cannot be read, or was being changed.

    """
    objects = inventory.objects
    if not objects.has("direct_functions"):
        return
    for lock in ("direct_mutex", "ftrace_lock"):
        objects.require_rest(lock, "direct calls were being changed")
    records = read_records(objects)
    targets, by_ops = direct_targets(objects), _by_ops(objects)
    groups: dict[str, list[int]] = {}
    for place, is_flagged in _recorded(records, {*targets, *by_ops}):
        message = _dispute(targets.get(place), by_ops.get(place), is_flagged=is_flagged)
        if message:
            groups.setdefault(message, []).append(place)
    for message, places in sorted(groups.items()):
        yield suspect_of(places, message)


def _by_ops(objects: Objects) -> dict[int, int]:
    """Return the functions of every ``ftrace_ops`` that is DIRECT, each with its ``direct_call``."""
    functions: dict[int, int] = {}
    for ops in registered(objects):
        flags = objects.get(ops, "ftrace_ops.flags")
        if flags & OPS_ENABLED and flags & _OPS_DIRECT:
            wanted, unwanted = read_ops_hash(objects, ops)
            target = objects.get(ops, "ftrace_ops.direct_call") if objects.knows("ftrace_ops.direct_call") else 0
            functions |= dict.fromkeys(wanted - unwanted, target)
    return functions


def _recorded(records: LiveRecords, others: set[int]) -> Iterator[tuple[int, bool]]:
    """Yield places of records that are flagged, or among the others, and whether they are; no record, no call."""
    flagged = (records.flags & _DIRECT != 0) & ~is_skipped(records)
    chosen = np.isin(records.places, np.fromiter(others, np.uint64, len(others))) & ~is_skipped(records)
    for k in np.flatnonzero(flagged | chosen).tolist():
        yield int(records.places[k]), bool(flagged[k])


def _dispute(target: int | None, by_ops: int | None, *, is_flagged: bool) -> str:
    """Return what contradicts; empty if nothing does.

    A target in the table alone is left over, of an ops whose filter was made smaller: nothing calls it.
    """
    if target is not None and by_ops is not None and is_flagged:
        if by_ops and by_ops != target:
            return f"direct_functions sends it to {target:#x}, and the ftrace_ops that is DIRECT to {by_ops:#x}"
        return ""
    views = (
        ("direct_functions", target is not None),
        ("the filter of an ftrace_ops that is DIRECT", by_ops is not None),
        ("the flags of its record", is_flagged),
    )
    having = [name for name, has in views if has]
    if not having or having == ["direct_functions"]:
        return ""
    lacking = [name for name, has in views if not has]
    return f"has a direct call by {' and '.join(having)}, and none by {' and '.join(lacking)}"
