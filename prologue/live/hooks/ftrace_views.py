"""Views of who traces a function, and of direct calls, that have to agree.

Registration counts an ops in the record of each of its functions (``__ftrace_hash_rec_update``, and
``referenced_filters`` for modules that are loaded later; kernel/trace/ftrace.c, 5.10-7.3). An ops that somebody takes
off the list by hand is still called, and still counted; so is a function that is taken out of a filter.

A function with a direct call has a target in the table ``direct_functions``, is in the filter of one ops that is
DIRECT, and its record says DIRECT (``register_ftrace_direct``, ``update_ftrace_direct_add``; 6.4-7.3). An ops of one
target has it as ``direct_call``; with ``CONFIG_HAVE_SINGLE_FTRACE_DIRECT_OPS`` (7.0 and later) an ops may be for many,
and then that is 0: the table alone has the targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from prologue.arrays import I64, U64, Bool, among
from prologue.live.hooks.ftrace_hooks import read_ops_hash
from prologue.live.hooks.inventory import Inventory
from prologue.live.structs.ftrace_lists import ENABLED, LiveRecords, direct_targets, read_records, registered
from prologue.live.structs.objects import NotReadError, Objects
from prologue.rules.base import Hit
from prologue.words import counted

# FTRACE_REF_MAX: bits 22 to 0 until 6.2, 18 to 0 since 6.4 (include/linux/ftrace.h); no machine has 2^19 ftrace_ops.
_COUNT: Final = np.uint64((1 << 19) - 1)
_DISABLED: Final = np.uint64(1 << 25)  # FTRACE_FL_DISABLED: a weak function, or a module's that is not yet there
OPS_ENABLED: Final = 1
"""FTRACE_OPS_FL_ENABLED."""


def miscounted(inventory: Inventory) -> Iterator[Hit]:
    """Yield functions whose records count other users than the list has, or are enabled and count none.

    ``ftrace_check_record`` (kernel/trace/ftrace.c, 5.10-7.3) takes the call out when the last user goes, in the same
    turn: afterwards nothing is enabled without a user.

    Raises:
        NotKnownError: a list cannot be read, or was being changed.

    """
    objects = inventory.objects
    objects.require_rest("ftrace_lock", "tracing was being changed")
    if objects.variable("ftrace_disabled", 4):
        raise NotReadError("ftrace has given up after an error (ftrace_disabled), and counts nothing any more")
    records = read_records(objects)
    listed: I64 = np.zeros(len(records.places), np.int64)
    for ops in registered(objects):
        if objects.get(ops, "ftrace_ops.flags") & OPS_ENABLED:
            listed += _traced(objects, ops, records.places)
    users = (records.flags & _COUNT).astype(np.int64)
    without_user = (users == 0) & (records.flags & ENABLED != 0)
    differ = np.flatnonzero(((users != listed) | without_user) & ~is_skipped(records))
    pairs, group = np.unique(np.stack([users[differ], listed[differ]], axis=1), axis=0, return_inverse=True)
    for number, (count, several) in enumerate(pairs.tolist()):
        message = f"its record counts {counted(count, 'user')}, and the list of ftrace_ops has {several:,} for it"
        if count == several:
            message = "its record is enabled, and neither counts a user nor has the list of ftrace_ops one for it"
        yield suspect_of(records.places[differ[group.ravel() == number]].tolist(), message)


def suspect_of(places: Sequence[int], message: str) -> Hit:
    """Make one suspect of functions of whose records views disagree in the same way."""
    more = f", as for {counted(len(places) - 1, 'more function')}" if len(places) > 1 else ""
    return Hit(places[0], f"{message}{more}")


def is_skipped(records: LiveRecords) -> Bool:
    """Tell for which records nothing counts: those that are disabled (``skip_record``)."""
    skipped: Bool = (records.flags & _DISABLED != 0) & (records.flags & ENABLED == 0)
    return skipped


def _traced(objects: Objects, ops: int, places: U64) -> Bool:
    """Return which functions an ops traces."""
    chosen, notrace = (np.fromiter(each, np.uint64, len(each)) for each in read_ops_hash(objects, ops))
    traced = among(places, chosen) if len(chosen) else np.ones(len(places), np.bool_)
    return traced & ~among(places, notrace)


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
