"""PL110: some records were moved, some were not."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """The minority form, if both occur."""
    sites = subject.binary.sites
    if sites is None or not sites.moved.any() or sites.moved.all():
        return
    moved_is_minority = 2 * int(sites.moved.sum()) <= len(sites)
    word = "second slot, most others do not" if moved_is_minority else "place where it was compiled, most others do not"
    for k in np.flatnonzero(sites.moved == moved_is_minority).tolist():
        yield Hit(int(sites.first[k]), f"its record points at the {word}")


RULE = Rule(
    code="PL110",
    slug="records-mixed-form",
    severity="fatal",
    inputs=("V", "K"),
    decides_writing=True,
    open_while_unfinished=True,
    what="Records that point at second slots beside records that do not.",
    why="A kernel adjusts all of its records or none. Half of them would end 4 bytes off, where ftrace finds no NOP.",
    example="38576 records at the first NOP, 1 at the second",
    fix="run the same `prologue patch` command again: it finishes what was begun",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_call_adjust" (6.12)',
    check=check,
)
