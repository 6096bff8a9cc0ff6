"""PL409: relocations that do not write records are not the same before and after."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.rules.base import Hit, Rule, Subject
from prologue.words import counted


def check(subject: Subject) -> Iterator[Hit]:
    """Compare the relocations of both files, except those of records, which processing takes out.

    One hit for those that were lost, and one for those that came.
    """
    after, before = subject.binary, subject.linked_before
    if before is None:
        return
    lost, came = changed(before, after)
    for rows, message in ((lost, "{} of {} not there any more"), (came, "{} that {} does not have")):
        if len(rows):
            yield Hit(int(rows["place"][0]), message.format(counted(len(rows), "relocation"), before.path))


def changed(before: Binary, after: Binary) -> tuple[np.ndarray, np.ndarray]:
    """Return relocations outside of the record table that only one of the files has; empty if neither was rewritten."""
    from prologue.kernel.relocating import ROW, relocations_outside

    empty = np.zeros(0, ROW)
    if not (isinstance(before, Kernel) and isinstance(after, Kernel)) or after.bounds is None or after.records is None:
        return empty, empty
    if after.records.form != "offsets":
        return empty, empty
    table = range(after.bounds.start, after.bounds.stop)
    was, now = relocations_outside(before.image, table), relocations_outside(after.image, table)
    if np.array_equal(was, now):
        return empty, empty
    return _surplus_rows(was, now), _surplus_rows(now, was)


def _surplus_rows(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the rows that occur more often in the first of two sorted tables."""
    rows, counts = np.unique(np.concatenate([first, second]), return_counts=True)
    surplus = np.searchsorted(first, rows, "right") - np.searchsorted(first, rows, "left")
    more: np.ndarray = rows[2 * surplus > counts]
    return more


RULE = Rule(
    code="PL409",
    slug="relocations-changed",
    severity="fatal",
    inputs=("P",),
    what="A processed kernel of which the relocations of records were taken out has lost another relocation, or has "
    "one that the file from before does not have.",
    why="Each relocation fills in one pointer of the kernel when it is moved (KASLR). One that is lost leaves a "
    "link-time address there; one that came adds the offset to something that is no pointer. Either is memory "
    "corruption, seen long after boot or never.",
    example="1 relocation of vmlinux.linked not there any more, at init_task+0x4e8",
    fix="process the linked vmlinux again and compare; if the difference persists, report both files to the "
    "maintainers of prologue",
    citation='prologue help kernel-contract "Version 2"; kernel arch/arm64/kernel/pi/relocate.c (6.12)',
    check=check,
)
