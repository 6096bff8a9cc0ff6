"""Two views of who traces a function: the count in its record, and the filters of every ``ftrace_ops`` on the list.

Registration counts an ops in the record of each of its functions (``__ftrace_hash_rec_update``, and
``referenced_filters`` for modules that are loaded later; kernel/trace/ftrace.c, 5.10-7.3). An ops that somebody takes
off the list by hand is still called, and still counted; so is a function that is taken out of a filter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U64, Bool, among
from prologue.live.audit.ftrace_lists import ENABLED, LiveRecords
from prologue.live.audit.locks import is_held
from prologue.live.hooks.ftrace_hooks import OpsHash, read_ops_hash, read_records, registered
from prologue.live.hooks.objects import NotReadError, Objects

# FTRACE_REF_MAX: bits 22 to 0 until 6.2, 18 to 0 since 6.4 (include/linux/ftrace.h); no machine has 2^19 ftrace_ops.
_COUNT: Final = np.uint64((1 << 19) - 1)
_DISABLED: Final = np.uint64(1 << 25)  # FTRACE_FL_DISABLED: a weak function, or a module's that is not yet there
OPS_ENABLED: Final = 1
"""FTRACE_OPS_FL_ENABLED."""


class Miscounted(NamedTuple):
    """Functions whose records disagree with the list in the same way, by run-time addresses of second slots, ascending.

    If ``counted`` is what is ``listed``, it is 0, and the records are enabled all the same.
    """

    places: tuple[int, ...]
    counted: int
    listed: int


def miscounted(objects: Objects) -> Iterator[Miscounted]:
    """Yield functions whose records count other users than the list has, or are enabled and count none.

    ``ftrace_check_record`` (kernel/trace/ftrace.c, 5.10-7.3) takes the call out when the last user goes, in the same
    turn: afterwards nothing is enabled without a user.

    Raises:
        NotKnownError: a list cannot be read, or was being changed.

    """
    if is_held(objects.variables, "ftrace_lock"):
        raise NotReadError("tracing was being changed (ftrace_lock is held)")
    if objects.variable("ftrace_disabled", 4):
        raise NotReadError("ftrace has given up after an error (ftrace_disabled), and counts nothing any more")
    records = read_records(objects)
    listed: I64 = np.zeros(len(records.places), np.int64)
    for ops in registered(objects):
        if objects.get(ops, "ftrace_ops.flags") & OPS_ENABLED:
            listed += _traced(records.places, read_ops_hash(objects, ops))
    counted = (records.flags & _COUNT).astype(np.int64)
    without_user = (counted == 0) & (records.flags & ENABLED != 0)
    differ = np.flatnonzero(((counted != listed) | without_user) & ~is_skipped(records))
    pairs, group = np.unique(np.stack([counted[differ], listed[differ]], axis=1), axis=0, return_inverse=True)
    for number, (count, several) in enumerate(pairs.tolist()):
        yield Miscounted(tuple(records.places[differ[group.ravel() == number]].tolist()), count, several)


def is_skipped(records: LiveRecords) -> Bool:
    """Tell for which records nothing counts: those that are disabled (``skip_record``)."""
    skipped: Bool = (records.flags & _DISABLED != 0) & (records.flags & ENABLED == 0)
    return skipped


def _traced(places: U64, functions: OpsHash) -> Bool:
    """Return which functions an ops traces."""
    chosen, notrace = (np.fromiter(each, np.uint64, len(each)) for each in functions)
    traced = among(places, chosen) if len(chosen) else np.ones(len(places), np.bool_)
    return traced & ~among(places, notrace)
