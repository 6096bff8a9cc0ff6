"""PL107: records are not in the order that the kernel relies on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report records below the one before, in kernels that do not sort at boot, or whose build step has sorted.

    Zero records come first, or last if a build step made the table plain.
    """
    kernel, records = subject.kernel, subject.kernel.records
    if records is None or not (kernel.sorts_at_build or records.form != "addresses"):
        return
    vaddrs, values = records.vaddrs, records.values
    if records.form == "plain":
        values = np.where(values == 0, np.uint64((1 << 64) - 1), values)
    # Not np.diff: these are unsigned and would wrap.
    for k in np.flatnonzero(values[1:] < values[:-1]).tolist():
        before, value = int(records.values[k]), int(records.values[k + 1])
        yield Hit(int(vaddrs[k + 1]), f"record {value:#x} comes after {before:#x}", (value,))


RULE = Rule(
    code="PL107",
    slug="records-unsorted",
    severity="error",
    inputs=("V",),
    what="Records that do not ascend (zeros first), in a kernel that had them sorted at build time, or that prologue "
    "sorted (marker version 2).",
    why="With CONFIG_BUILDTIME_MCOUNT_SORT the kernel does not sort at boot and looks functions up by bisection: "
    "functions out of order can neither be found nor traced, and module unloading may miss them.",
    example="record 0xffff800080010420 comes after 0xffff800080010520",
    fix="run the build's sorttable step again; a later step must keep the order",
    citation='kernel scripts/sorttable.c "sort_mcount_loc", kernel/trace/ftrace.c "ftrace_process_locs" (6.12)',
    check=check,
)
