"""What one instruction does with X9, or another register, that may hold a value that matters.

It is asked of the few words at which ``prologue.insn.x9`` stops. Branches, loads, stores and system instructions are
decoded here, since loading capstone takes longer than all else in a walk; capstone is asked about vectors and rare
forms. On integer instructions capstone 5 is wrong about some aliases (it has CMP write its first operand and UBFX read
its destination), but there the masks of ``may_read`` are exact.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from prologue.insn.decode import CB_OR_TB
from prologue.insn.disasm import insn_text, register_use
from prologue.insn.x9 import ENDS, OF_64_BYTES, PAIRS, SYSTEM_PAIR, SYSTEM_WRITE, TAG_CHANGE, USES_MORE, X9

_Effect = Literal["read", "write", "neither"]

# (mask, value), registers that are read, and registers that are written, by the letters of _registers; the first row
# that matches counts. Arm ARM, "A64 instruction set encoding"; FEAT_LSUI and FEAT_CMPBR by LLVM 22.
_FORMS: Final = (
    (*CB_OR_TB, "t", ""),  # CBZ, CBNZ, TBZ, TBNZ
    (0x7F000000, 0x74000000, "tm", ""),  # CBGT and its kind, with a register
    (0x7F000000, 0x75000000, "t", ""),  # ... with a number
    (*SYSTEM_WRITE, "t", ""),  # MSR, and SYS: DC, IC, TLBI, AT
    (*SYSTEM_PAIR, "tT", ""),  # MSRR, SYSP
    (*TAG_CHANGE, "n", "t"),  # TCHANGEF and its kind
    (*OF_64_BYTES[0], "n8", "m"),  # ST64B, ST64BV
    (*OF_64_BYTES[1], "n8", "m"),  # ST64BV0
    (0xFFFFFC00, 0xF83FD000, "n", "8"),  # LD64B
    (0x3F208C00, 0x38200000, "nm", "t"),  # LDADD and its kind
    (0x3F20FC00, 0x38208000, "nm", "t"),  # SWP
    (0x3F20FC00, 0x3820C000, "n", "t"),  # LDAPR
    (0xBF200C00, 0x19200400, "nm", "t"),  # LDTADD and its kind, SWPT
    (0x3FA07C00, 0x08A07C00, "nmt", "m"),  # CAS
    (0xBFA07C00, 0x89807C00, "nmt", "m"),  # CAST
    (*PAIRS[0], "nmMtT", "mM"),  # CASP
    (0x3E400000, 0x28400000, "n", "ts"),  # LDP and its kind
    (0x3E400000, 0x28000000, "nts", ""),  # STP and its kind
    (0xBFE00000, 0x88600000, "n", "ts"),  # LDXP, LDAXP
    (0xBFE00000, 0x88200000, "nts", "m"),  # STXP, STLXP
    (0x3F600000, 0x08400000, "n", "t"),  # LDXR, LDAR and their kind
    (0xBFE00000, 0x89400000, "n", "t"),  # LDTXR, LDATXR
    (0xBFE00000, 0x89000000, "nt", "m"),  # STTXR, STLTXR
    (0xFFE0FC00, 0xD9401800, "n", "tm"),  # LDIAPP
    (0xFFE0FC00, 0x99401800, "n", "tm"),
    (0xFF200400, 0xF8200400, "n", "t"),  # LDRAA, LDRAB
    (0xFFFFFC00, 0xD9E00000, "n", "t"),  # LDGM
    (0xFFC00000, 0xF9800000, "n", ""),  # PRFM
    (0xFFE00C00, 0xF8800000, "n", ""),
    (0xFFE00C00, 0xF8A00800, "nm", ""),
    (0x3FC00000, 0x39000000, "nt", ""),  # STR, LDR with an immediate of 12 bits
    (0x3F000000, 0x39000000, "n", "t"),
    (0x3FE00000, 0x38000000, "nt", ""),  # ... of 9 bits
    (0x3F200000, 0x38000000, "n", "t"),
    (0x3FE00C00, 0x19000000, "nt", ""),  # STLUR, LDAPUR
    (0x3F200C00, 0x19000000, "n", "t"),
    (0x3FE00C00, 0x38200800, "nmt", ""),  # STR, LDR with a register
    (0x3F200C00, 0x38200800, "nm", "t"),
    (0xFFFFF000, 0x04BF5000, "", "t"),  # RDVL, RDSVL
    (0xFFA0F000, 0x04205000, "m", "t"),  # ADDVL, ADDPL, ADDSVL, ADDSPL
    (0xFF30FC00, 0x0420E000, "", "t"),  # CNTB, CNTH, CNTW, CNTD
)


def effect(word: int, number: int = X9) -> _Effect:
    """What an instruction that may read X9, or another register, does with a value that a caller may have left there.

    Compilers read a register before they write it in two harmless ways: they insert one field after the other (BFI,
    BFXIL, MOVK) until the register is full, and they spill an ``int`` that is not initialised on every path. Code
    that has to preserve X9 stores all 64 bits.
    """
    inserts = word & 0x7F800000 == 0x72800000 or (word & 0x7F800000 == 0x33000000 and word >> 5 & 31 != number)
    if inserts and word & 31 == number:
        return "write"
    if word & 0x1C000000 == 0x10000000 or word & 0x0E000000 == 0x0A000000:
        return "read"  # integer arithmetic: the masks are exact
    stored_half = word & 0xFFC003FF == 0xB90003E0 | number  # STR Wt, [SP, #imm]
    of_pair = number in (word & 31, word >> 10 & 31)
    stored_half |= word & 0xFFC003E0 == 0x290003E0 and of_pair  # STP Wt, Wt2, [SP, #imm]
    if stored_half:
        return "neither"
    for mask, value, read, written in _FORMS:
        if word & mask == value:
            return _effect(number, _registers(word, read), _registers(word, written))
    return _by_capstone(word, number)


def _effect(number: int, read: frozenset[int], written: frozenset[int]) -> _Effect:
    return "read" if number in read else "write" if number in written else "neither"


def _registers(word: int, letters: str) -> frozenset[int]:
    """Numbers of registers by the Arm ARM's names of their fields: Rt, Rn, Rt2 (bits 14:10) and Rm or Rs (20:16).

    ``t``, ``n``, ``s`` and ``m`` are these, ``T`` and ``M`` the register after one, and ``8`` the eight from Rt on.
    """
    fields = {"t": word & 31, "n": word >> 5 & 31, "s": word >> 10 & 31, "m": word >> 16 & 31}
    fields |= {"T": fields["t"] + 1, "M": fields["m"] + 1}
    return frozenset(fields[letter] for letter in letters if letter != "8") | frozenset(
        range(fields["t"], fields["t"] + 8) if "8" in letters else ()
    )


def _by_capstone(word: int, number: int) -> _Effect:
    """Of an instruction's operands, capstone's text has all; its list of what is read lacks many.

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
        return "write" if _ONLY_WRITES.fullmatch(mnemonic) else "read"
    return _effect(number, read, written)


# Those that capstone 5 does not list as writing their first operand, and that do not read it.
_ONLY_WRITES: Final = re.compile(r"cntp|last[ab]|fmov|[su]mov|mov|fjcvtzs|fcvt\w+")


def may_use(word: int, number: int) -> bool:
    """Whether an instruction may use a register: the question of ``look_over``, of one word."""
    named = any(word >> low & 31 == number for low in (0, 5, 10, 16))
    return named or any(word & mask == value for mask, value in USES_MORE)


def ends_path(word: int) -> bool:
    """Whether a path ends at a word, as far as the word alone says: an array of one takes twenty times as long."""
    return any(word & mask == value for mask, value in ENDS)


def loads(word: int, number: int) -> bool:
    """Whether an instruction loads all of a register from memory: LDR, LDUR and LDP of 64 bits."""
    if word & 0xFE400000 == 0xA8400000:  # LDP and LDNP Xt, Xt2
        return number in (word & 31, word >> 10 & 31)
    single = word & 0xFFC00000 == 0xF9400000 or word & 0xFFE00000 == 0xF8400000 or word & 0xFFE00C00 == 0xF8600800
    return single and word & 31 == number


def stores_all(before: int, word: int, after: int) -> bool:
    """Whether a word is STP X8, X9 between STP X6, X7 and STP X10, X11, to places that follow each other.

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
