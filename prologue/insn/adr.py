"""Addresses that ADR and ADRP form, and how long their registers keep them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U32, U64
from prologue.insn import a64
from prologue.insn.decode import ADR_OR_ADRP, ADRP, adr_immediate, field, find, matches

# (mask, value) of what writes the register at bits 4:0 (Arm ARM, "A64 instruction set encoding").
_WRITES_RD: Final = (
    (0x1C000000, 0x10000000),  # integer arithmetic with an immediate
    (0x0E000000, 0x0A000000),  # ... with registers only
    (0x3FC00000, 0x39400000),  # LDR (unsigned immediate), also of bytes and halves
    (0x3FE00000, 0x38400000),  # LDR (an immediate of 9 bits)
    (0x3FE00C00, 0x38600800),  # LDR (register)
    (0xFFF00000, 0xD5300000),  # MRS
)
_SAVED: Final = 19  # registers below may be changed by a call (AAPCS64, "General-purpose registers")


class Made(NamedTuple):
    """Instructions that form addresses, ascending: where in the text, register, value; arrays of shape (n,)."""

    at: I64
    register: U32
    value: U64


def adrs(words: U32, base: np.uint64) -> tuple[Made, Made]:
    """Every ADR, and every ADRP, of the words from address ``base`` on."""
    index = find(words, ADR_OR_ADRP)
    is_page = matches(words[index], ADRP)
    return _adr(words, base, index[~is_page], page=False), _adr(words, base, index[is_page], page=True)


def _adr(words: U32, base: np.uint64, index: I64, *, page: bool) -> Made:
    pc = base + index.astype(np.uint64) * np.uint64(4)
    distance = adr_immediate(words[index])
    if page:
        pc, distance = pc & ~np.uint64(0xFFF), distance << 12
    return Made(index, field(words[index], 0), pc + distance.view(np.uint64))


def surely_writes(word: int, register: int) -> bool:
    """Whether an instruction, or the function that it calls, writes a register: the forms that compilers use most."""
    if register < _SAVED and a64.classify(word) in ("BL", "BLR"):
        return True
    if word & 31 == register and any(word & mask == value for mask, value in _WRITES_RD):
        return word & 0x1FE00000 != 0x1A400000  # CCMP and CCMN have flags where others have Rd
    return word & 0x3E400000 == 0x28400000 and register in (word & 31, word >> 10 & 31)  # LDP
