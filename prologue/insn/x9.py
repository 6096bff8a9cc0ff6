"""What instructions do with X9, which the MOV overwrites: masks over arrays of words, and the exact effect of one.

All of them can be asked about another register, to which a value in X9 was moved.

The masks say "may read" too often and never too seldom; ``effect`` decides on the few words that they stop at. It asks
capstone about loads, stores and vectors. On integer instructions capstone 5 is wrong about some aliases (it has CMP
write its first operand and UBFX read its destination), but there the masks are exact.
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from prologue.arrays import U32, Bool
from prologue.insn import a64
from prologue.insn.decode import BL, CB_OR_TB, CONTROL, INDIRECT, Pattern, field, matches
from prologue.insn.disasm import register_use

X9: Final = 9
# (mask, value) of loads and stores: with a register as offset; LDXR and its kind; STXR and its kind, whose status
# register stands where others have a source.
_BY_REGISTER: Final[Pattern] = (0x3B200C00, 0x38200800)
_EXCLUSIVE_LOAD: Final[Pattern] = (0x3F600000, 0x08400000)
_EXCLUSIVE_STORE: Final[Pattern] = (0x3FE00000, 0x08000000)
_ATOMIC: Final[Pattern] = (0x3F200C00, 0x38200000)  # LDADD, SWP and their kind, LDAPR
_SYSTEM_WRITE: Final[Pattern] = (0xFFE00000, 0xD5000000)  # MSR, and SYS: DC, IC, TLBI, AT; MRS has bit 21 set


# Of the fields at bits 0, 5, 10 and 16: the lowest bit of each, and the highest.
_LOWEST: Final = np.uint32(0x00010421)
_HIGHEST: Final = np.uint32(0x00104210)


def names_x9(words: U32) -> Bool:
    """Which words have a 9 where an instruction may name a register.

    After XOR these fields are 0, and only where one is does the subtraction borrow from a field's highest bit that is
    clear: half the operations of a comparison for each field.
    """
    differ = words ^ np.uint32(X9) * _LOWEST
    result: Bool = (differ - _LOWEST) & ~differ & _HIGHEST != 0
    return result


def may_read(words: U32, number: int = X9) -> Bool:
    """Which words may read X9 or W9, or another register: every form whose register fields could say so.

    Groups and fields are those of the Arm ARM, "A64 instruction set encoding" (op0 at bits 28:25).
    """
    rt, rn, rm, ra = (field(words, low) == np.uint32(number) for low in (0, 5, 16, 10))
    immediate = matches(words, (0x1C000000, 0x10000000))
    adr, wide = matches(words, (0x1F000000, 0x10000000)), matches(words, (0x1F800000, 0x12800000))
    # MOVK and BFM change part of Rd; EXTR has two sources.
    partly = matches(words, (0x7F800000, 0x72800000)) | matches(words, (0x7F800000, 0x33000000))
    extract = matches(words, (0x1F800000, 0x13800000))
    from_immediate = immediate & ~adr & ((rn & ~wide) | (rt & partly) | (rm & extract))

    control = matches(words, CONTROL)
    compare_branch = matches(words, CB_OR_TB)
    indirect = matches(words, INDIRECT)
    from_control = control & ((rt & (compare_branch | matches(words, _SYSTEM_WRITE))) | ((rn | rt) & indirect))

    memory = matches(words, (0x0A000000, 0x08000000))
    unsigned = matches(words, (0x3B000000, 0x39000000))  # the immediate fills bits 21:10
    literal = matches(words, (0x3B000000, 0x18000000))
    near = matches(words, (0x3B200000, 0x38000000))  # an immediate at bits 20:12
    pair = matches(words, (0x3A000000, 0x28000000))  # an immediate at bits 21:15
    general = matches(words, (0x04000000, 0))
    # Only plain loads are known not to read Rt.
    load = general & (field(words, 22, 2) != 0) & (unsigned | near | matches(words, _BY_REGISTER))
    pair_load = general & matches(words, (0x3A400000, 0x28400000))
    exclusive_load, exclusive_store = matches(words, _EXCLUSIVE_LOAD), matches(words, _EXCLUSIVE_STORE)
    rt_read = rt & general & ~load & ~pair_load & ~literal & ~exclusive_load
    rest = ~unsigned & ~literal & ~near & ~exclusive_load & ~exclusive_store
    other = rest & ((ra & ~pair_load & ~matches(words, _ATOMIC)) | (rm & ~pair))
    from_memory = memory & ((rn & ~literal) | rt_read | other)

    register = matches(words, (0x0E000000, 0x0A000000))
    compares_immediate = matches(words, (0x1FE00800, 0x1A400800))  # CCMP, CCMN with a number where Rm would be
    rmif = matches(words, (0x1FE00400, 0x1A000400))
    three_sources = matches(words, (0x1F000000, 0x1B000000))
    from_register = register & (rn | (rm & ~compares_immediate & ~rmif) | (ra & three_sources))
    scalable = matches(words, (0x1E000000, 0x04000000)) | matches(words, (0x9E000000, 0x80000000))  # SVE, SME
    vector = (matches(words, (0x0E000000, 0x0E000000)) | scalable) & (rn | rm | rt)
    result: Bool = from_immediate | from_control | from_memory | from_register | vector
    return result


def must_write(words: U32, number: int = X9) -> Bool:
    """Which words, if they do not read X9 (or another register), certainly write it: the forms of temporaries."""
    rd = field(words, 0) == np.uint32(number)
    immediate = matches(words, (0x1C000000, 0x10000000))
    flags_only = matches(words, (0x1FE00000, 0x1A400000)) | matches(words, (0x1FE00400, 0x1A000400))  # CCMP, CCMN; RMIF
    register = matches(words, (0x0E000000, 0x0A000000)) & ~flags_only
    load = matches(words, (0x3F000000, 0x39000000)) & (field(words, 22, 2) != 0)
    near_load = matches(words, (0x3F200000, 0x38000000)) & (field(words, 22, 2) != 0)
    far_load = matches(words, (0x3F200C00, 0x38200800)) & (field(words, 22, 2) != 0)
    prefetch = matches(words, (0xFF800000, 0xF9800000)) | matches(words, (0xFFA00000, 0xF8800000))
    prefetch |= matches(words, (0xFFE00C00, 0xF8A00800))
    literal = matches(words, (0xBF000000, 0x18000000))
    pair = matches(words, (0x3E400000, 0x28400000)) & (rd | (field(words, 10) == np.uint32(number)))
    mrs = matches(words, (0xFFF00000, 0xD5300000))
    loads = ((load | near_load | far_load) & ~prefetch) | literal | matches(words, _EXCLUSIVE_LOAD)
    status = matches(words, _EXCLUSIVE_STORE) & (field(words, 16) == np.uint32(number))
    result: Bool = rd & (immediate | register | loads | mrs) | pair | status
    return result


def effect(word: int, number: int = X9) -> Literal["read", "write", "neither"]:
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
    sources = _sources(word)
    if sources is not None:  # loading capstone takes longer than all else here
        return "read" if number in sources else "write"
    read, written = register_use(word)
    return "read" if number in read else "write" if number in written else "neither"


def _sources(word: int) -> tuple[int, ...] | None:
    """Registers that the most frequent branches, loads and stores read; None for all other instructions.

    One of their registers must be the one that is asked about, as ``may_read`` has found. Of atomics and of SYS,
    capstone 5 forgets all but the base.
    """
    first, base, second, index = (word >> low & 31 for low in (0, 5, 10, 16))
    if word & 0x7C000000 == 0x34000000 or word & _SYSTEM_WRITE[0] == _SYSTEM_WRITE[1]:  # CBZ, CBNZ, TBZ, TBNZ
        return (first,)
    if word & _ATOMIC[0] == _ATOMIC[1] and (not word >> 15 & 1 or word >> 12 & 7 in (0, 4)):  # not LD64B and its kind
        return base, index
    if word & 0x3FA07C00 == 0x08A07C00:  # CAS
        return base, index, first
    if word & 0xBFA07C00 == 0x08207C00:  # CASP
        return base, index, index + 1, first, first + 1
    if word & 0x3E000000 == 0x28000000:  # LDP, STP and their kind
        return (base,) if word >> 22 & 1 else (base, first, second)
    if word & 0x3F600000 == 0x08400000 or word & 0xBFE00000 == 0x88600000:  # LDXR, LDAR and their kind, LDXP
        return (base,)
    if word & 0xBFE00000 == 0x88200000:  # STXP
        return base, first, second
    if word & 0xFE800000 == 0xF8800000:  # PRFM, and loads that do not exist
        return None
    data = () if word >> 22 & 3 else (first,)  # of STR
    if word & 0x3F000000 == 0x39000000 or word & 0x3F200000 == 0x38000000:  # an immediate of 12 or 9 bits
        return base, *data
    if word & 0x3F200C00 == 0x38200800:  # a register
        return base, index, *data
    return None


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


# Calls, BRK, indirect jumps, returns, exception returns, and what is no instruction.
_ENDS: Final[tuple[Pattern, ...]] = (BL, a64.CLASSES["BRK"], INDIRECT, (0xFFFF0000, 0))


def ends_path(words: U32) -> Bool:
    """At which words a path ends, as far as the word alone says."""
    result = np.zeros(len(words), np.bool_)
    for pattern in _ENDS:
        result |= matches(words, pattern)
    return result


def ends_path_at(word: int) -> bool:
    """The same of one word: an array of one takes twenty times as long."""
    return any(word & mask == value for mask, value in _ENDS)
