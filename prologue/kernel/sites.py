"""Patch sites: the pair of slots that each record stands for.

Where the pair is, seen from the record (kernel ``arch/arm64/kernel/ftrace.c``, ``ftrace_call_adjust``)::

    layout "2" (5.5+)            layout "4,2" (6.3+ with CALL_OPS)     moved by this tool, either layout
                                 rec -> NOP    literal, low half
                                        NOP    literal, high half
    func:  [BTI C]               func:  [BTI C]                        func:  [BTI C]
    rec -> NOP   first slot             NOP    first slot                     MOV   first slot
           NOP   second slot            NOP    second slot             rec -> NOP   second slot
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np

from prologue.arrays import I64, U32, U64, Bool, among, sorted_unique
from prologue.elf.symbols import Symbols
from prologue.insn import a64
from prologue.kernel.records import Records
from prologue.kernel.text import Text

Layout = Literal["2", "4,2"]

# Defined by kernel/trace/ftrace.c under CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS (6.3+) and nowhere else.
CALL_OPS_SYMBOL: Final = "ftrace_nop_ops"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sites:
    """A site for every record that points into text; every array has shape (n,)."""

    layout: Layout
    record: I64  # index of the record
    moved: Bool  # the record already points at the second slot
    first: U64  # address of the first slot
    word0: U32  # word in the first slot
    word1: U32  # word in the second slot
    before: U32  # word right before the pair

    def __len__(self) -> int:
        return len(self.record)

    @property
    def second(self) -> U64:
        """Address of the second slot: the kernel's ``rec->ip``."""
        return self.first + np.uint64(4)

    @property
    def bti(self) -> Bool:
        """Sites with a BTI landing pad right before the pair."""
        has_bti: Bool = self.before & a64.BTI_MASK == a64.BTI
        return has_bti

    @property
    def entry(self) -> U64:
        """Address of the function: the BTI if there is one, otherwise the first slot."""
        return self.first - np.where(self.bti, np.uint64(4), np.uint64(0))

    @property
    def has_mov(self) -> Bool:
        """Sites whose pair is MOV X9, X30; NOP."""
        has: Bool = (self.word0 == a64.MOV_X9_X30) & (self.word1 == a64.NOP)
        return has

    @property
    def has_nop(self) -> Bool:
        """Sites whose pair is NOP; NOP, as compiled."""
        has: Bool = (self.word0 == a64.NOP) & (self.word1 == a64.NOP)
        return has

    def unmoved_values(self) -> U64:
        """Return the value that the compiler put into each record: 8 bytes before the function, or the first slot."""
        return self.entry - np.uint64(8) if self.layout == "4,2" else self.first


_NONE: Final = np.zeros(0, np.uint64)
NO_SITES: Final = Sites(
    layout="2", record=_NONE.astype(np.int64), moved=_NONE.astype(np.bool_), first=_NONE,
    word0=_NONE.astype(np.uint32), word1=_NONE.astype(np.uint32), before=_NONE.astype(np.uint32),
)  # fmt: skip


def find_layout(symbols: Symbols) -> Layout:
    """Return the ``-fpatchable-function-entry`` that the kernel was built with."""
    return "4,2" if symbols.find(CALL_OPS_SYMBOL) else "2"


def find_sites(text: Text, symbols: Symbols, records: Records, layout: Layout, *, moved: bool | None = None) -> Sites:
    """Resolve every non-zero record in text to its site.

    ``moved`` says where the records are, if that is known; otherwise the words there decide.
    """
    index = np.flatnonzero(records.nonzero & text.in_text(records.values))
    value = records.values[index]
    around = text.words_around(value, range(-2, 3))
    at_second = _moved(symbols, value, around, layout) if moved is None else np.full(len(value), moved)
    first = np.where(at_second, value - np.uint64(4), value)
    if layout == "4,2":
        bti_after_literal = around[2] & a64.BTI_MASK == a64.BTI
        first = np.where(at_second, first, value + np.where(bti_after_literal, np.uint64(12), np.uint64(8)))
    pair = around if np.array_equal(first, value) else text.words_around(first, (-1, 0, 1))
    return Sites(
        layout=layout, record=index, moved=at_second, first=first, word0=pair[0], word1=pair[1], before=pair[-1]
    )


class EntryPairs(NamedTuple):
    """Pairs at function entries, listed by a record or not."""

    entries: U64  # function entries that were looked at, ascending
    first: U64  # first slots of the pairs there, ascending
    unlisted: U64  # those of them that no record lists, ascending; words that other patchers own included


def find_entry_pairs(text: Text, symbols: Symbols, sites: Sites) -> EntryPairs:
    """Find NOP; NOP and MOV X9, X30; NOP at function entries, or after the landing pads there."""
    starts = symbols.function_starts
    starts = starts[np.diff(starts, prepend=np.uint64(0)) != 0]
    words = text.words_around(starts, (0, 1, 2))
    bti = words[0] & a64.BTI_MASK == a64.BTI
    word0, word1 = np.where(bti, words[1], words[0]), np.where(bti, words[2], words[1])
    pair = ((word0 == a64.NOP) | (word0 == a64.MOV_X9_X30)) & (word1 == a64.NOP)
    first = sorted_unique(starts[pair] + np.where(bti[pair], np.uint64(4), np.uint64(0)))
    return EntryPairs(starts[words[0] != 0], first, first[~among(first, sites.first)])  # others are not in text


def replaced_before(symbols: Symbols, sites: Sites) -> Bool:
    """Return the sites before whose pair a MOV begins the function: it took the landing pad's place."""
    replaced: Bool = (sites.has_nop | sites.has_mov) & (sites.before == a64.MOV_X9_X30)
    if replaced.any():
        replaced &= symbols.is_function_start(sites.first - np.uint64(4))
    return replaced


def _moved(symbols: Symbols, value: U64, around: dict[int, U32], layout: Layout) -> Bool:
    """Return which records point at a second slot: a NOP with the MOV before it.

    In layout "2", MOV; NOP; NOP with the record in the middle can also be a pair whose landing pad was overwritten by
    the MOV. Only if nothing else in the file was processed is it taken for that: taking a moved record for an
    unmoved one would put the MOV into the wrong slot.

    A record may also have been moved although its site was not patched: then the pair of NOPs that begins the
    function ends at the record. (What comes after it does not decide: a body may begin with a NOP, too.)
    """
    after_mov: Bool = (around[0] == a64.NOP) & (around[-1] == a64.MOV_X9_X30)
    untouched = int((around[0] == a64.NOP).sum()) > 2 * int((around[0] == a64.MOV_X9_X30).sum())
    if layout == "2" and untouched and not (after_mov & (around[1] != a64.NOP)).any():
        after_mov = np.zeros_like(after_mov)
    lone = ~after_mov & (around[0] == a64.NOP) & (around[-1] == a64.NOP)
    # A slot that was overwritten: the function's symbol says which of the two the record means.
    pad_before = around[-1] & a64.BTI_MASK == a64.BTI
    patchable = (around[0] == a64.NOP) | (around[0] == a64.MOV_X9_X30)
    lone |= ~after_mov & ~(patchable & (around[1] == a64.NOP))
    if 2 * int(after_mov.sum()) <= len(value):  # otherwise a pad there may be what overwrote a first slot
        lone &= ~pad_before
    lone &= ~(pad_before & (around[0] != a64.NOP))
    if lone.any():
        after_bti = around[-2][lone] & a64.BTI_MASK == a64.BTI
        start = value[lone] - np.where(after_bti, np.uint64(8), np.uint64(4))
        begins = symbols.is_function_start(start)
        begins[begins] = ~symbols.is_function_start(value[lone][begins])
        if layout == "4,2":  # a literal may follow a function that is no more than its landing pad
            literal = (around[0] == a64.NOP) & (around[1] == a64.NOP)
            begins &= ~(literal[lone] & symbols.is_function_start(value[lone] + np.uint64(8)))
        after_mov[lone] = begins
    return after_mov
