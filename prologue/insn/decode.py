"""Arrays of A64 words: which match an encoding, and what their immediates mean.

Encodings are those of the Arm ARM (DDI 0487), "A64 Base Instruction Descriptions". Functions never modify their
arguments.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I32, I64, U32, U64, Bool
from prologue.insn import a64
from prologue.insn.table import pattern

Pattern = tuple[int, int]
"""Mask and value."""

ADR: Final[Pattern] = pattern("ADR")
ADRP: Final[Pattern] = pattern("ADRP")
ADR_OR_ADRP: Final[Pattern] = pattern("ADR", "ADRP")
ADD_IMM: Final[Pattern] = pattern("ADD Xd, Xn, #imm12")
LDR_LITERAL: Final[Pattern] = pattern("LDR Xt, label")
B: Final[Pattern] = pattern("B")
BL: Final[Pattern] = pattern("BL")

B_OR_BL: Final[Pattern] = pattern("B", "BL")
B_OR_BC_COND: Final[Pattern] = pattern("B.cond", "BC.cond")
CB: Final[Pattern] = pattern("CBZ", "CBNZ")
TB: Final[Pattern] = pattern("TBZ", "TBNZ")
CB_OR_TB: Final[Pattern] = pattern("CBZ", "CBNZ", "TBZ", "TBNZ")
CB_COND: Final[Pattern] = pattern("CB<cc> (register)", "CB<cc> (immediate)")  # also CBB<cc>, CBH<cc> (FEAT_CMPBR)
RETURN_PC: Final[Pattern] = pattern("RETAASPPC, RETABSPPC")
# Groups of the Arm ARM, with what is not allocated in them.
INDIRECT: Final[Pattern] = (0xFE000000, 0xD6000000)  # BR, BLR, RET, ERET, with pointer authentication or without
CONTROL: Final[Pattern] = (0x1C000000, 0x14000000)  # branches, exceptions and system instructions

_B_CB_TB: Final[Pattern] = pattern("B", "BL", "CBZ", "CBNZ", "TBZ", "TBNZ")
_CHUNK: Final = 1 << 16  # words compared at once: what fits into a cache is much faster


def matches(words: U32, pattern: Pattern) -> Bool:
    """Return which words are of an encoding; shape of ``words``."""
    mask, value = map(np.uint32, pattern)
    matching: Bool = words == value if mask == 0xFFFFFFFF else words & mask == value
    return matching


def find(words: U32, pattern: Pattern) -> I64:
    """Find the words that are of an encoding: indices, ascending; made for a whole kernel's text."""
    parts = [np.zeros(0, np.int64)]
    for start in range(0, len(words), _CHUNK):
        parts.append(np.flatnonzero(matches(words[start : start + _CHUNK], pattern)) + start)
    return np.concatenate(parts)


def field(words: U32, low: int, width: int = 5) -> U32:
    """Return ``width`` bits from bit ``low`` up, a register's number by default."""
    return words >> np.uint32(low) & np.uint32((1 << width) - 1)


def signed(words: U32, low: int, width: int) -> I64:
    """Return ``width`` bits from bit ``low`` up as a signed number."""
    return _signed(words, low, width).astype(np.int64)


def _signed(words: U32, low: int, width: int) -> I32:
    """Shift the bits up to bit 31, and back with the sign."""
    number: I32 = (words << np.uint32(32 - width - low)).view(np.int32) >> np.int32(32 - width)
    return number


def jump_distance(words: U32) -> I64:
    """Return the bytes from each B or BL to its target (imm26)."""
    return signed(words, 0, 26) * a64.INSN_SIZE


def branch_distance(words: U32) -> I64:
    """Return the bytes from each direct branch to its target; of other words they mean nothing."""
    return _steps(words).astype(np.int64) * a64.INSN_SIZE


def _steps(words: U32) -> I32:
    """Return the instructions from each direct branch to its target; of other words they mean nothing."""
    near = np.where(matches(words, TB), _signed(words, 5, 14), _signed(words, 5, 19))
    nearest = matches(words, CB_COND)
    if nearest.any():  # no compiler makes these for a kernel yet
        near = np.where(nearest, _signed(words, 5, 9), near)
    return np.where(matches(words, B_OR_BL), _signed(words, 0, 26), near)


def jump(kind: Pattern, distance: I64) -> U32:
    """Encode ``B`` or ``BL`` over ``distance`` instructions (not bytes) each; meaningless if that is out of reach."""
    words: U32 = (kind[1] | distance & 0x3FFFFFF).astype(np.uint32)
    return words


def adr_immediate(words: U32) -> I64:
    """Return the signed 21-bit immediate of ADR and ADRP: immhi at 23:5, immlo at 30:29 (Arm ARM, "ADR", "ADRP")."""
    return signed(field(words, 5, 19) << np.uint32(2) | field(words, 29, 2), 0, 21)


class FormedAddresses(NamedTuple):
    """Instructions that form addresses, ascending: where in the text, register, value; arrays of shape (n,)."""

    at: I64
    register: U32
    value: U64


def adrs(words: U32, base: np.uint64) -> tuple[FormedAddresses, FormedAddresses]:
    """Find every ADR, and every ADRP, of the words from address ``base`` on."""
    index = find(words, ADR_OR_ADRP)
    is_page = matches(words[index], ADRP)
    return _adr(words, base, index[~is_page], page=False), _adr(words, base, index[is_page], page=True)


def _adr(words: U32, base: np.uint64, index: I64, *, page: bool) -> FormedAddresses:
    pc = base + index.astype(np.uint64) * np.uint64(4)
    distance = adr_immediate(words[index])
    if page:
        pc, distance = pc & ~np.uint64(0xFFF), distance << 12
    return FormedAddresses(index, field(words[index], 0), pc + distance.view(np.uint64))


def calls_to(words: U32, base: int, target: int) -> I64:
    """Find the words that are BL to ``target``: indices; ``words`` of shape (n,) begin at address ``base``."""
    calls = np.flatnonzero(matches(words, BL))
    distance = (target - base) // a64.INSN_SIZE - calls
    hits: I64 = calls[(words[calls] == jump(BL, distance)) & (abs(distance) < a64.BL_REACH // a64.INSN_SIZE)]
    return hits


def branches(words: U32, base: int) -> tuple[I64, U64]:
    """Find every direct branch among the words: B, BL, B.cond, BC.cond, CBZ, CBNZ, TBZ, TBNZ, CB<cc>.

    Args:
        words: shape (n,), from address ``base`` on.
        base: address of the first word.

    Returns:
        Indices of the branches, ascending, and the addresses that they branch to; shape (m,).

    """
    # As long as they could get; the system gives memory only to what is written.
    index, target = np.empty(len(words), np.int64), np.empty(len(words), np.uint64)
    count = 0
    for start in range(0, len(words), _CHUNK):
        part = words[start : start + _CHUNK]
        at = np.flatnonzero(matches(part, _B_CB_TB) | matches(part, B_OR_BC_COND) | matches(part, CB_COND))
        rows = slice(count, count + len(at))
        np.add(at, start, out=index[rows])
        places = (index[rows] + _steps(part[at])) * a64.INSN_SIZE
        np.add(places.view(np.uint64), np.uint64(base), out=target[rows])
        count += len(at)
    return index[:count], target[:count]
