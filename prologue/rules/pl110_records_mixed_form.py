"""PL110: some records were moved, some were not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report records of the less frequent form, if both forms occur."""
    sites = subject.sites
    if not sites.moved.any() or sites.moved.all():
        return
    moved_is_minority = 2 * int(sites.moved.sum()) <= len(sites)
    where = "at the second slot" if moved_is_minority else "where the compiler put it"
    for k in np.flatnonzero(sites.moved == moved_is_minority).tolist():
        yield Hit(int(sites.first[k]), f"its record points {where}, most others do not")


RULE = Rule(
    code="PL110",
    slug="records-mixed-form",
    severity="fatal",
    inputs=("V", "K"),
    open_while_unfinished=True,
    what="Records that point at second slots, together with records that do not.",
    why="A kernel adjusts all of its records or none. Those of one form would be 4 bytes off, where ftrace finds no "
    "NOP.",
    example="38576 records at the first NOP, 1 at the second",
    fix="find what changed the record, and link again",
    fix_of_module="find what changed the record, and build the module again",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_call_adjust" (6.12)',
    check=check,
)
