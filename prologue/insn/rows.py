"""The table of instructions for arrays of words: the row of each, its flow, and which of them use X9.

The MOV of a patch site overwrites X9. ``prologue.insn.effect`` decides on the few words that may read it.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import U32, Bool
from prologue.insn.table import ROWS, FlowKind, registers

Bytes = npt.NDArray[np.uint8]

_TOP: Final = 21  # bits from here up decide most words' rows: one look-up instead of a pass for each row
X9: Final = 9
ENDS: Final = frozenset(
    {FlowKind.BL, FlowKind.INDIRECT, FlowKind.CALL, FlowKind.RET, FlowKind.ERET, FlowKind.TRAP, FlowKind.UNDEFINED}
)
"""Where a path ends, as far as the word alone says: AAPCS64 has calls keep no X9."""

# Of the fields at bits 0, 5, 10 and 16: the lowest bit of each, and the highest.
_LOWEST: Final = np.uint32(0x00010421)
_HIGHEST: Final = np.uint32(0x00104210)
_FIELDS: Final = {"d": 0, "n": 5, "a": 10, "m": 16}


class _Index(NamedTuple):
    """Rows by bits 31:21 of a word; values of these bits with the same candidates are one group."""

    group: Bytes  # of each value
    candidates: list[list[int]]  # of each group, in order: the last one matches if no other does
    last: Bytes
    several: Bool  # groups with more than one candidate


@cache
def _index() -> _Index:
    top = np.arange(1 << 32 - _TOP, dtype=np.uint32) << np.uint32(_TOP)
    mask = np.array([[row.mask] for row in ROWS], np.uint32)
    value = np.array([[row.value] for row in ROWS], np.uint32)
    high = mask >> np.uint32(_TOP) << np.uint32(_TOP)
    possible = (value ^ top) & high == 0
    possible &= np.arange(len(ROWS))[:, None] <= (possible & (mask == high)).argmax(axis=0)  # the first that is sure
    packed = [column.tobytes() for column in np.packbits(possible, axis=0).T]
    place = {bits: k for k, bits in enumerate(packed)}
    number = {bits: k for k, bits in enumerate(place)}
    candidates = [np.flatnonzero(possible[:, k]).tolist() for k in place.values()]
    return _Index(
        np.array([number[bits] for bits in packed], np.uint8),
        candidates,
        np.array([rows[-1] for rows in candidates], np.uint8),
        np.array([len(rows) > 1 for rows in candidates]),
    )


def row_numbers(words: U32) -> Bytes:
    """Return the index in ``ROWS`` of the row of each word; shape of ``words``."""
    index, flat = _index(), words.reshape(-1)
    group = index.group.take(flat >> np.uint32(_TOP))
    rows = index.last.take(group)
    undecided = np.flatnonzero(index.several.take(group))
    undecided = undecided[np.argsort(group[undecided], kind="stable")]  # numpy sorts bytes by radix
    bounds = np.searchsorted(group[undecided], np.arange(len(index.candidates) + 1)).tolist()
    for candidates, begin, end in zip(index.candidates, bounds, bounds[1:], strict=False):
        if begin < end:
            part = flat[undecided[begin:end]]
            for number in reversed(candidates[:-1]):
                row = ROWS[number]
                rows[undecided[begin:end][part & np.uint32(row.mask) == np.uint32(row.value)]] = number
    return rows.reshape(words.shape)


def flows(words: U32) -> Bytes:
    """Return the ``FlowKind`` of each word; shape of ``words``."""
    return np.array([row.flow for row in ROWS], np.uint8).take(row_numbers(words))


@cache
def _kinds() -> Bytes:
    """Return by bits 31:21 what a word may do: bit 0, end a path; bit 1, use registers that it does not name."""
    ends = [row.flow in ENDS for row in ROWS]
    more = ["+" in row.reads + row.writes or "w" in row.reads for row in ROWS]
    kinds = [any(ends[k] for k in rows) | any(more[k] for k in rows) << 1 for rows in _index().candidates]
    return np.array(kinds, np.uint8).take(_index().group)


def look_over(words: U32) -> tuple[Bool, Bool]:
    """Return which words end a path, by the word alone, and which may use X9; made for a whole kernel's text.

    A word may use X9 if it has a 9 where an instruction may name a register, or if it may use registers that it does
    not name. After the XOR, fields of 9 are 0, and only if one is does the subtraction borrow from a field's highest
    bit that is clear: half the operations of a comparison for each field.
    """
    kind = _kinds().take(words >> np.uint32(_TOP))  # one look-up instead of a pass for each pattern
    differ = words ^ np.uint32(X9) * _LOWEST
    uses: Bool = (differ - _LOWEST) & ~differ & _HIGHEST != 0
    return kind & 1 != 0, uses | (kind & 2 != 0)


def may_read(words: U32, number: int) -> Bool:
    """Return which words may read a register."""
    return _use(words, number, tuple(row.reads for row in ROWS))


def must_write(words: U32, number: int) -> Bool:
    """Return which words surely write a register: a row that does not say which it writes does not count."""
    return _use(words, number, tuple(row.writes for row in ROWS))


def _use(words: U32, number: int, column: tuple[str, ...]) -> Bool:
    rows, result = row_numbers(words), np.zeros(words.shape, np.bool_)
    for letter, low in _FIELDS.items():
        has = np.array([letter in letters.split() for letters in column])
        result |= (words >> np.uint32(low) & np.uint32(31) == np.uint32(number)) & has.take(rows)
    result |= np.array([f"x{number}" in letters.split() for letters in column]).take(rows)
    # Few words have registers that no field names: pairs, blocks, one of four.
    more = np.array([any(letter in letters for letter in "+w") for letters in column])
    for k in np.flatnonzero(more.take(rows) & ~result).tolist():
        result.flat[k] = number in registers(int(words.flat[k]), column[rows.flat[k]])
    return result
