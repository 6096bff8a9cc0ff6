"""Judges what one instruction does with X9, or another register, that may hold a value that matters.

The table of instructions answers for general registers; capstone, whose loading takes longer than the rest of a walk,
is asked about scalable vectors. And tracks registers with a number that the code itself gave them, and conditional
branches that it decides: a compiler's flag ("take the error path at the end") is moved into a register on each path,
and tested where they meet. Only moves of an immediate and of zero are followed; whatever else could write a register
forgets it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from prologue.insn.disasm import insn_text, register_use
from prologue.insn.rows import ENDS, X9
from prologue.insn.table import SCALABLE, registers, row_of, writes

_Effect = Literal["read", "write", "neither"]
_ZERO: Final = 31  # of a compare-and-branch or as a move's source: WZR, XZR


def effect(word: int, number: int = X9) -> _Effect:
    """Judge an instruction that may read X9, or another register: its effect on a value a caller may have left there.

    Compilers read a register before they write it in two harmless ways: they insert one field after the other (BFI,
    BFXIL, MOVK) until the register is full, and they spill an ``int`` that is not initialised on every path. Code
    that has to preserve X9 stores all 64 bits.
    """
    inserts = word & 0x7F800000 == 0x72800000 or (word & 0x7F800000 == 0x33000000 and word >> 5 & 31 != number)
    if inserts and word & 31 == number:
        return "write"
    stored_half = word & 0xFFC003FF == 0xB90003E0 | number  # STR Wt, [SP, #imm]
    of_pair = number in (word & 31, word >> 10 & 31)
    stored_half |= word & 0xFFC003E0 == 0x290003E0 and of_pair  # STP Wt, Wt2, [SP, #imm]
    if stored_half:
        return "neither"
    row = row_of(word)
    read, written = registers(word, row.reads), registers(word, row.writes) if "?" not in row.writes else ()
    if row.name == SCALABLE and number in read:
        return _by_capstone(word, number)
    return "read" if number in read else "write" if number in written else "neither"


def _by_capstone(word: int, number: int) -> _Effect:
    """Judge by capstone: its text has all of an instruction's operands; its list of reads lacks many.

    What it does not know counts as a read: an instruction that is newer than capstone.
    """
    text = insn_text(word)
    if text.startswith(".word"):
        return "read"
    mnemonic, _, operands = text.partition(" ")
    first, _, others = operands.partition(",")
    name = re.compile(rf"\b[wx]{number}\b")
    read, written = register_use(word)
    if name.search(others):
        return "read"
    if name.search(first) and number not in written:
        # Capstone 5 does not list the destination of some.
        return "write" if re.fullmatch("cntp|last[ab]|mov", mnemonic) else "read"
    return "read" if number in read else "write" if number in written else "neither"


def ends_path(word: int) -> bool:
    """Return whether a path ends at a word, by the word alone: an array of one takes twenty times as long."""
    return row_of(word).flow in ENDS


def loads(word: int, number: int) -> bool:
    """Return whether an instruction loads all of a register from memory: LDR, LDUR and LDP of 64 bits."""
    if word & 0xFE400000 == 0xA8400000:  # LDP and LDNP Xt, Xt2
        return number in (word & 31, word >> 10 & 31)
    single = word & 0xFFC00000 == 0xF9400000 or word & 0xFFE00000 == 0xF8400000 or word & 0xFFE00C00 == 0xF8600800
    return single and word & 31 == number


def raises_sp(word: int) -> bool:
    """Return whether an instruction adds a number to SP: ADD, and LDP and LDR with write-back after the access."""
    return (
        word & 0xFF8003FF == 0x910003FF  # ADD SP, SP, #imm
        or word & 0xFFC003E0 == 0xA8C003E0  # LDP Xt, Xt2, [SP], #imm
        or word & 0xFFE00FE0 == 0xF84007E0  # LDR Xt, [SP], #imm
    )


def stores_all(before: int, word: int, after: int) -> bool:
    """Return whether a word is STP X8, X9 between STP X6, X7 and STP X10, X11, to places that follow each other.

    So does a kernel that crashes write down every register, whatever it holds (``crash_setup_regs``,
    arch/arm64/include/asm/kexec.h, 6.1-7.2).
    """
    if word & 0xFFC07C1F != 0xA9002408:  # STP X8, X9, [Xn, #imm]
        return False
    offset = word >> 15 & 0x7F
    return [before, after] == [
        word & ~(0x7F << 15 | 31 << 10 | 31) | (offset + step & 0x7F) << 15 | first + 1 << 10 | first
        for step, first in ((-2, 6), (2, 10))
    ]


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
