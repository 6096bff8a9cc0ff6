"""PL108: a zero record in a kernel that would not skip it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Zero records, where the kernel adjusts a record before it tests it for NULL."""
    kernel, records = subject.kernel, subject.kernel.records
    if records is None or records.live.all() or kernel.adjusts_zero_records is not True:
        return
    if kernel.lost_relocations:  # PL102: zeros are all that is left
        return
    vaddrs = records.vaddrs
    for k in np.flatnonzero(~records.live).tolist():
        yield Hit(int(vaddrs[k]), "zero record: this kernel adjusts it to a small address and then patches there", (0,))


RULE = Rule(
    code="PL108",
    slug="record-zero-unsafe",
    severity="fatal",
    inputs=("V",),
    what="A zero record in a kernel whose `ftrace_process_locs` calls `ftrace_call_adjust` before its NULL test.",
    why="The adjusted zero is 4, not NULL. ftrace then fails to read address 4, reports `ftrace bug` and disables "
    "itself for that boot.",
    example="record 0 of 38577: 0000000000000000",
    fix="do not zero records on this release; 6.15 and 6.12 stable test before they adjust",
    citation='kernel kernel/trace/ftrace.c "ftrace_process_locs" (6.1: adjusts first; 6.12.107: tests first)',
    check=check,
)
