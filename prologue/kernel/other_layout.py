"""Sites of objects that were compiled with another -fpatchable-function-entry than their kernel expects.

The kernel computes a site from its record by one layout (``prologue.kernel.sites``). A record of ``=N,M``, which puts
M NOPs before the function, then leads to another place: in layout 2 the second slot of ``=2,1`` is the function's
entry, which callers enter past the MOV; after that of ``=2,2`` the entry comes, and no call passes the pair. Such a
site is known by the symbol of a function that begins where this layout has none begin, and by the NOPs from the record
to it. Without such a symbol nothing is said.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U32, U64, Bool, among
from prologue.elf.symbols import Symbols
from prologue.insn import a64
from prologue.kernel.sites import Sites, replaced_before
from prologue.kernel.text import Text

_MOST: Final = 16  # NOPs before a function that are looked for
_WORD: Final = np.uint64(a64.INSN_SIZE)


class OtherLayouts(NamedTuple):
    """Sites of another layout; arrays of shape (n,)."""

    places: I64  # indices among the sites
    entry: U64  # where the function begins
    before: I64  # NOPs before it
    after: I64  # NOPs at its entry, after a landing pad: those of the layout, and those that its body begins with


def find_other_layouts(text: Text, symbols: Symbols, sites: Sites, values: U64) -> OtherLayouts:
    """Find the sites of another layout; ``values`` are those of the sites' records."""
    usual = symbols.is_function_start(sites.entry)
    if sites.layout == "4,2":  # a landing pad right before the pair is not the entry that the record is meant for
        usual &= sites.moved | (sites.unmoved_values() == values)
    skipped = _is_patchable(sites.word0) & symbols.is_function_start(sites.second)
    odd = np.flatnonzero((~usual | skipped) & ~replaced_before(symbols, sites))  # no compiler makes a MOV: PL203
    # A record that was moved stands at the second slot; before that it stood 4 bytes, or the literal, before the pair.
    record = np.where(sites.moved, sites.unmoved_values(), values)[odd]
    around = text.words_around(record, range(-1, _MOST + 1))
    entry, before = np.zeros(len(odd), np.uint64), np.full(len(odd), -1, np.int64)
    nops: Bool = np.ones(len(odd), np.bool_)
    for count in range(_MOST + 1):
        start = record + _WORD * np.uint64(count)
        begins = symbols.is_function_start(start) & nops & (before < 0)
        entry[begins], before[begins] = start[begins], count
        nops &= _is_patchable(around[count])
    padded = symbols.is_function_start(record - _WORD) & (around[-1] & a64.BTI_MASK == a64.BTI) & (before < 0)
    entry[padded], before[padded] = (record - _WORD)[padded], 0
    after = _nops_at(text, entry)
    # A function that has a site of its own is not this record's. The leftover of a weak function may, if it is empty,
    # end with its NOPs where a function without a site begins, as an object of =2,2 has them: no kernel was seen to.
    stray = (before >= 0) & ~among(entry, sites.entry[usual & ~skipped]) & ((after > 0) | (before > 0))
    return OtherLayouts(odd[stray], entry[stray], before[stray], after[stray])


def _is_patchable(words: U32) -> Bool:
    """Return which words are as compiled or as processed."""
    is_patchable: Bool = (words == a64.NOP) | (words == a64.MOV_X9_X30)
    return is_patchable


def _nops_at(text: Text, entry: U64) -> I64:
    """Count the patchable words that a function begins with, after a landing pad."""
    around = text.words_around(entry, range(6))
    padded = around[0] & a64.BTI_MASK == a64.BTI
    count, going = np.zeros(len(entry), np.int64), np.ones(len(entry), np.bool_)
    for k in range(5):
        going &= _is_patchable(np.where(padded, around[k + 1], around[k]))
        count += going
    return count
