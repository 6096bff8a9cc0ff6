"""Which registers hold a number that the code itself gave them, and which conditional branches that decides.

A compiler's flag ("take the error path at the end") is moved into a register on each path and tested where they meet.
Without it, a walk over the code takes ways that no CPU takes. Only moves of an immediate and of zero are followed;
whatever else could write a register forgets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prologue.insn import a64
from prologue.insn.decode import B_OR_BC_COND, B_OR_BL, CB_COND, CB_OR_TB
from prologue.insn.x9 import PAIRS

_ZERO: Final = 31  # of a compare-and-branch or as a move's source: WZR, XZR
# LD64B writes eight registers, CASP two for each name, MRRS two for one; HINT signs X30 and X17, as do the forms of
# PACIA that name no source; the rest of HINT's group is system's.
_FORGETS_ALL: Final = (
    (0x3F208C00, 0x38208000),  # LD64B; and SWP and LDAPR, which write one
    *PAIRS,
    (0xBF200000, 0x19200000),  # others of RCWCASP's group
    (0xFFE00000, 0xD5600000),  # MRRS
    (0xFFFF8000, 0xDAC18000),  # PACIA171615 and its kind
    (0xFFFFF01F, 0xD503201F),  # HINT
    (0xFF000000, 0xD4000000),  # SVC, HVC, SMC: what answers may write; and BRK
    (0x1E000000, 0x00000000),  # not allocated, and SME
    (0x1E000000, 0x04000000),  # SVE
)
# (mask, value) and the lowest bits of the fields that may name a destination; elsewhere each of the four may.
_DESTINATIONS: Final = (
    (*CB_OR_TB, ()),
    (*CB_COND, ()),
    (*B_OR_BC_COND, ()),
    (*B_OR_BL, ()),
    (0x1C000000, 0x10000000, (0,)),  # with an immediate
    (0x0E000000, 0x0A000000, (0,)),  # with registers
    (0x3B000000, 0x39000000, (0,)),  # loads and stores: an immediate of 12 bits, never written back
    (0x3B200000, 0x38000000, (0, 5)),  # of 9 bits, which may be
    (0x3A000000, 0x28000000, (0, 5, 10)),  # pairs
)


def after(word: int, known: Mapping[int, int]) -> dict[int, int]:
    """What is known after an instruction that is no call: of each register (its number, 0-30) that is known, 64 bits.

    Arm ARM, "A64 Base Instruction Descriptions": MOVZ, MOVN, ORR (shifted register); "A64 instruction set encoding".
    """
    if word == a64.NOP:
        return dict(known)
    if any(word & mask == value for mask, value in _FORGETS_ALL):
        return {}
    places = next((places for mask, value, places in _DESTINATIONS if word & mask == value), (0, 5, 10, 16))
    forgotten = {word >> low & 31 for low in places}
    left = {register: value for register, value in known.items() if register not in forgotten}
    moved = _moved(word)
    if moved is not None and word & 31 != _ZERO:
        left[word & 31] = moved
    return left


def _moved(word: int) -> int | None:
    """The number that MOVZ, MOVN or MOV (from WZR, XZR) writes."""
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
    """Whether CBZ, CBNZ, TBZ or TBNZ branches; None for all else, and where the register is not known."""
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
