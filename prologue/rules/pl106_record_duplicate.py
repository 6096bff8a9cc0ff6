"""PL106: two records for one site, or sites that overlap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report neighbours in address order that are closer than the two slots of a pair."""
    sites = subject.sites
    order = np.argsort(sites.first, kind="stable")
    first = sites.first[order]
    for k in np.flatnonzero(np.diff(first) < 8).tolist():
        low, high = int(first[k]), int(first[k + 1])
        overlaps = f"overlaps the site at {subject.binary.symbols.locate(low)}"
        yield Hit(high, "a second record for this site" if low == high else overlaps)


RULE = Rule(
    code="PL106",
    slug="record-duplicate",
    severity="error",
    inputs=("V", "K"),
    what="Two records that lead to one site, or to sites that share a word.",
    why="ftrace would patch the site twice: the second time it does not find the word it expects, reports "
    "`ftrace bug` and disables itself.",
    example="records 17 and 18 are both 0xffff800008010420",
    fix="link again; check that no object is linked twice, and that the linker folds no identical functions (--icf)",
    citation='kernel kernel/trace/ftrace.c "ftrace_process_locs", "ftrace_bug" (6.12)',
    check=check,
)
