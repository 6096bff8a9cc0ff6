"""Opens a written file as a stranger would, and says whether it is what the plan promised."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from prologue.errors import InternalError
from prologue.rules.engine import ApprovedPlan
from prologue.sites.binary import Binary
from prologue.sites.kernel import Kernel
from prologue.sites.load import open_binary


def read_back(approved: ApprovedPlan, path: Path, *, independent: bool) -> str:
    """Read the result with our own reader and, if asked, with LIEF.

    Returns:
        The state that the file is in.

    Raises:
        InternalError: another state than the plan's goal, or the two readers disagree about a record or a site.

    """
    after, goal = open_binary(path), approved.plan.goal
    expected = "untouched" if goal == "variant" else goal  # variants leave sites and records alone
    if after.state != expected:
        raise InternalError(f"the result reads as {after.state}, not as {expected}", path=path)
    if independent:
        _compare(after, processed=expected == "processed")
    return after.state


def _load_lief() -> None:
    """Import LIEF with signals held back: its bindings abort the process if a handler raises while they load."""
    import signal

    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        import lief  # noqa: F401
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _compare(after: Binary, *, processed: bool) -> None:
    sites, records = after.sites, after.records
    if sites is None or records is None:
        raise InternalError("the result has no records", path=after.path)
    _load_lief()
    if isinstance(after, Kernel):
        from prologue.reread.vmlinux import reread

        seen = reread(after.path, processed=processed, moved=processed and after.marker is not None)
        same = np.array_equal(np.array(seen.records, np.uint64), records.values)
        first = seen.first_slots
    else:
        from prologue.reread.module import reread_module

        starts = {section.name: section.addr for section in after.image.text_sections}
        places = reread_module(bytes(after.image.content), after.path, processed=processed)
        same, first = True, tuple(starts[name] + offset for name, offset in places)
    if not same or not np.array_equal(np.array(first, np.uint64), sites.first):
        raise InternalError("LIEF reads other records or sites than we do", path=after.path)
