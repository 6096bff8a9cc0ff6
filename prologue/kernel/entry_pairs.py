"""Pairs at function entries, listed by a record or not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prologue.arrays import U64, among, sorted_unique
from prologue.elf.symbols import Symbols
from prologue.insn import a64
from prologue.kernel.sites import Sites
from prologue.kernel.text import Text


class EntryPairs(NamedTuple):
    """Pairs at function entries."""

    entries: U64  # function entries that were looked at, ascending
    first: U64  # first slots of the pairs there, ascending
    unlisted: U64  # those of them that no record lists, ascending; words that other patchers own included


def find_entry_pairs(text: Text, symbols: Symbols, sites: Sites) -> EntryPairs:
    """Find NOP; NOP and MOV X9, X30; NOP at function entries, or after the landing pads there."""
    starts = symbols.typed_function_starts
    starts = starts[np.diff(starts, prepend=np.uint64(0)) != 0]
    words = text.words_around(starts, (0, 1, 2))
    bti = words[0] & a64.BTI_MASK == a64.BTI
    word0, word1 = np.where(bti, words[1], words[0]), np.where(bti, words[2], words[1])
    pair = ((word0 == a64.NOP) | (word0 == a64.MOV_X9_X30)) & (word1 == a64.NOP)
    first = sorted_unique(starts[pair] + np.where(bti[pair], np.uint64(4), np.uint64(0)))
    return EntryPairs(starts[words[0] != 0], first, first[~among(first, sites.first)])  # others are not in text
