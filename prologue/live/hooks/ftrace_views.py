"""Two views of who traces a function: the count in its record, and the filters of every ``ftrace_ops`` on the list.

Registration counts an ops in the record of each of its functions (``__ftrace_hash_rec_update``, and
``referenced_filters`` for modules that are loaded later; kernel/trace/ftrace.c, 5.10-7.3). An ops that somebody takes
off the list by hand is still called, and still counted; so is a function that is taken out of a filter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from prologue.arrays import I64, U64, Bool, among
from prologue.live.hooks.ftrace_hooks import OpsHash, read_ops_hash
from prologue.live.hooks.inventory import Inventory
from prologue.live.structs.ftrace_lists import ENABLED, LiveRecords, read_records, registered
from prologue.live.structs.objects import NotReadError
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
            listed += _traced(records.places, read_ops_hash(objects, ops))
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


def _traced(places: U64, functions: OpsHash) -> Bool:
    """Return which functions an ops traces."""
    chosen, notrace = (np.fromiter(each, np.uint64, len(each)) for each in functions)
    traced = among(places, chosen) if len(chosen) else np.ones(len(places), np.bool_)
    return traced & ~among(places, notrace)
