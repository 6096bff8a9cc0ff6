"""Immediates and bit fields of A64 integer instructions, on plain numbers."""

from __future__ import annotations

from functools import cache

_ALL = (1 << 64) - 1


@cache
def logical_immediate(word: int) -> int | None:
    """The 64-bit mask that AND, ORR, EOR and ANDS (immediate) name; None if the encoding is reserved.

    N:immr:imms at bits 22:10 (Arm ARM, "DecodeBitMasks" in "Shared Pseudocode"): a run of imms + 1 ones, rotated right
    by immr, in each element of 2 to 64 bits. For a W register only the low half counts.
    """
    n, rotate, ones = word >> 22 & 1, word >> 16 & 0x3F, word >> 10 & 0x3F
    if n and not word >> 31:
        return None
    length = (n << 6 | ones ^ 0x3F).bit_length() - 1
    if length < 1:
        return None
    size = 1 << length
    ones, rotate = ones & size - 1, rotate & size - 1
    if ones == size - 1:
        return None
    run = (1 << ones + 1) - 1
    element = (run >> rotate | run << size - rotate) & (1 << size) - 1
    return sum(element << at for at in range(0, 64, size))


def bitfield(word: int, source: int, old: int) -> int:
    """What SBFM, BFM or UBFM puts into a register of that word's width; ``old`` is what BFM keeps bits of.

    opc at 30:29, immr at 21:16, imms at 15:10 (Arm ARM, "UBFM", "SBFM", "BFM").
    """
    width = 64 if word >> 31 else 32
    kind, right, top = word >> 29 & 3, word >> 16 & 0x3F, word >> 10 & 0x3F
    if top >= right:
        size, at = top - right + 1, 0
        field = source >> right & (1 << size) - 1
    else:
        size, at = top + 1, width - right
        field = source & (1 << size) - 1
    mask = (1 << size) - 1 << at
    result = field << at
    if kind == 1:
        result |= old & ~mask
    elif kind == 0 and field >> size - 1:
        result |= _ALL << at + size
    return result & ((1 << width) - 1)


def shifted(value: int, kind: int, amount: int, width: int) -> int:
    """A register's value shifted: LSL, LSR, ASR, ROR for 0 to 3 (Arm ARM, "ShiftReg" in "Shared Pseudocode")."""
    mask = (1 << width) - 1
    value, amount = value & mask, amount % width
    if kind == 0:
        return value << amount & mask
    if kind == 2 and value >> width - 1:
        return (value | ~mask) >> amount & mask
    low = value >> amount
    return low | value << width - amount & mask if kind == 3 else low


def extended(value: int, kind: int, shift: int) -> int:
    """UXTB, UXTH, UXTW, UXTX, SXTB, SXTH, SXTW, SXTX for 0 to 7, then shifted left (Arm ARM, "ExtendReg")."""
    width = 8 << (kind & 3)
    value &= (1 << width) - 1
    if kind & 4 and value >> width - 1:
        value -= 1 << width
    return value << shift & _ALL
