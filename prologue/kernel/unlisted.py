"""Pairs at function entries that no record lists: of single functions, or of a record table that was lost.

What is looked at are symbols of functions. A file that was built without dynamic ftrace has no pairs there: none of
the modules without a table in Debian's 5.10 to 7.3 has one, and a vmlinux has fewer than ten that alternatives and jump
labels do not own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U64, among
from prologue.insn import a64
from prologue.kernel.binary import Binary
from prologue.kernel.sites import NO_SITES, EntryPairs
from prologue.kernel.tables import alternatives, jump_labels

# Of a whole file: this many pairs, and this share of all pairs (or of all entries, if no record is left).
_MANY: Final = 8
_SHARE: Final = 0.05


def without_owner(binary: Binary, pairs: U64) -> U64:
    """Return the pairs that neither alternatives nor jump labels own: functions may begin with NOPs of theirs."""
    if not len(pairs):
        return pairs
    labels = jump_labels(binary).code
    owned = among(pairs, np.concatenate([alternatives(binary)[0].words(), labels, labels - np.uint64(4)]))
    stray: U64 = pairs[~owned | (binary.text.words(pairs) == a64.MOV_X9_X30)]  # nothing else begins with MOV X9, X30
    return stray


class LostTable(NamedTuple):
    """Pairs without a record, so many that the table, or a part of it, was lost."""

    unlisted: U64  # first slots of those pairs, ascending
    pairs: int  # at function entries, listed or not
    entries: int
    sections: dict[str, int]  # how many of the unlisted pairs are where


def lost_table(binary: Binary) -> LostTable | None:
    """Find out whether the records of the whole file, or of one section, were lost; None if they were not.

    In a section without any site a single pair is enough if most entries there are pairs.
    """
    pairs = binary.entry_pairs
    if not _too_many(binary, pairs):  # before the tables of other patchers are read
        return None
    pairs = pairs._replace(unlisted=without_owner(binary, pairs.unlisted))
    if not _too_many(binary, pairs):
        return None
    counts: dict[str, int] = {}
    sections = binary.text.text_map
    for section, count in zip(sections.sections, sections.counts(pairs.unlisted).tolist(), strict=True):
        if count:
            counts[section.name] = counts.get(section.name, 0) + count
    return LostTable(pairs.unlisted, len(pairs.first), len(pairs.entries), counts)


def _too_many(binary: Binary, pairs: EntryPairs) -> bool:
    lost, listed = len(pairs.unlisted), len(pairs.first) - len(pairs.unlisted)
    if not lost:
        return False
    if lost >= _MANY and lost >= _SHARE * (len(pairs.first) if listed else len(pairs.entries)):
        return True
    counts = binary.text.text_map.counts
    unlisted, entries = counts(pairs.unlisted), counts(pairs.entries)
    bare = (unlisted > 0) & (counts((binary.sites or NO_SITES).first) == 0)
    return bool((unlisted[bare] * 2 >= entries[bare]).any())
