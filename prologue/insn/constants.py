"""Tracks registers with a number that the code itself gave them, and conditional branches that it decides.

A compiler's flag ("take the error path at the end") is moved into a register on each path and tested where they meet.
Without it, a walk over the code takes ways that no CPU takes. Only moves of an immediate and of zero are followed;
whatever else could write a register forgets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prologue.insn.table import writes

_ZERO: Final = 31  # of a compare-and-branch or as a move's source: WZR, XZR


def after(word: int, known: Mapping[int, int]) -> dict[int, int]:
    """Return the registers (0-30) that are known after an instruction that is no call, with their 64 bits.

    Arm ARM, "A64 Base Instruction Descriptions": MOVZ, MOVN, ORR (shifted register); "A64 instruction set encoding".
    """
    forgotten = writes(word)
    left = {register: value for register, value in known.items() if register not in forgotten}
    moved = _moved_number(word)
    if moved is not None and word & 31 != _ZERO:
        left[word & 31] = moved
    return left


def _moved_number(word: int) -> int | None:
    """Return the number that MOVZ, MOVN or MOV (from WZR, XZR) writes."""
    bits = 64 if word >> 31 else 32
    if word & 0x7FE0FFE0 == 0x2A0003E0:  # ORR Rd, ZR, Rm
        return 0 if word >> 16 & 31 == _ZERO else None
    shifted = (word >> 5 & 0xFFFF) << 16 * (word >> 21 & 3)
    if word & 0x7F800000 == 0x52800000:  # MOVZ
        return shifted
    if word & 0x7F800000 == 0x12800000:  # MOVN
        return ~shifted & (1 << bits) - 1
    return None


def taken(word: int, known: Mapping[int, int]) -> bool | None:
    """Return whether CBZ, CBNZ, TBZ or TBNZ branches; None for other words, or if the register is not known."""
    if word & 0x7C000000 != 0x34000000:
        return None
    register = word & 31
    value = 0 if register == _ZERO else known.get(register)
    if value is None:
        return None
    if word & 0x02000000:  # the bit's number is b5 (bit 31) and b40 (bits 23:19)
        is_zero = not value >> ((word >> 31) << 5 | word >> 19 & 31) & 1
    else:
        is_zero = (value if word >> 31 else value & 0xFFFFFFFF) == 0
    return is_zero != bool(word & 0x01000000)
