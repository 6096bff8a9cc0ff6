"""What instructions do with X9, which the MOV overwrites: masks over arrays of words, and the exact effect of one.

All of them can be asked about another register, to which a value in X9 was moved.

The masks say "may read" too often and never too seldom; ``effect`` decides on the few words that they stop at. It asks
capstone about loads, stores and vectors. On integer instructions capstone 5 is wrong about some aliases (it has CMP
write its first operand and UBFX read its destination), but there the masks are exact.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import numpy as np

from prologue.arrays import U32, Bool
from prologue.insn.decode import BL, CB_COND, CB_OR_TB, CONTROL, INDIRECT, Pattern, field, matches
from prologue.insn.disasm import insn_text, register_use

X9: Final = 9
# (mask, value) of loads and stores: with a register as offset; LDXR and its kind; STXR and its kind, whose status
# register stands where others have a source.
_BY_REGISTER: Final[Pattern] = (0x3B200C00, 0x38200800)
_EXCLUSIVE_LOAD: Final[Pattern] = (0x3F600000, 0x08400000)
_EXCLUSIVE_STORE: Final[Pattern] = (0x3FE00000, 0x08000000)
_ATOMIC: Final[Pattern] = (0x3F200C00, 0x38200000)  # LDADD, SWP and their kind, LDAPR
_SYSTEM_WRITE: Final[Pattern] = (0xFFE00000, 0xD5000000)  # MSR, and SYS: DC, IC, TLBI, AT; MRS has bit 21 set

_COPY_OR_SET: Final[Pattern] = (0xFB200C00, 0x19000400)  # CPYP, SETP and their kind (FEAT_MOPS)
_SET_TAGS: Final[Pattern] = (0xFFE00C00, 0x1DC00000)  # SETGOP and its kind
_OF_TWO: Final[Pattern] = (0xFF800000, 0xD5800000)  # TCHANGEF and its kind: system instructions with a source at 9:5

# Instructions that use more registers than they name: the one after each that is named, which is even, or eight in all.
_PAIRS: Final[tuple[Pattern, ...]] = (  # two of them: CASP; RCWCASP and RCWSCASP; CASPT
    (0xBFA07C00, 0x08207C00), (0xBF20FC00, 0x19200C00), (0xFFA00000, 0x49800000),
)  # fmt: skip
_SYSTEM_PAIR: Final[Pattern] = (0xFFE00000, 0xD5400000)  # MSRR, SYSP
_OF_64_BYTES: Final[tuple[Pattern, ...]] = ((0xFFE0DC01, 0xF8209000), (0xFFE0FC01, 0xF820A000))  # ST64B; ST64BV0
_LOAD_64_BYTES: Final[Pattern] = (0xFFFFFC00, 0xF83FD000)
_SME: Final[Pattern] = (0x9E000000, 0x80000000)  # at bits 14:13 may stand W8-W11, as 0-3
# All of the above, and a few others: told by the bits from _GROUP up.
_USES_MORE: Final[tuple[Pattern, ...]] = (_SME, _SYSTEM_PAIR, (0xAE000000, 0x08000000), (0xFFE00000, 0xF8200000))
# Calls, BRK, indirect jumps, returns, exception returns, and what is no instruction; by the same bits.
_ENDS: Final[tuple[Pattern, ...]] = (BL, (0xFFE00000, 0xD4200000), INDIRECT, (0xFFC00000, 0x55000000), (0xFFE00000, 0))
_GROUP: Final = 21


# Of the fields at bits 0, 5, 10 and 16: the lowest bit of each, and the highest.
_LOWEST: Final = np.uint32(0x00010421)
_HIGHEST: Final = np.uint32(0x00104210)


def _groups(patterns: tuple[Pattern, ...]) -> Bool:
    """Which values of the bits from _GROUP up are of one of the patterns."""
    words = np.arange(1 << 32 - _GROUP, dtype=np.uint32) << np.uint32(_GROUP)
    found: Bool = np.logical_or.reduce([matches(words, pattern) for pattern in patterns])
    return found


_IN_ENDS, _IN_USES_MORE = 1, 2
_KINDS: Final = (_groups(_ENDS) * _IN_ENDS | _groups(_USES_MORE) * _IN_USES_MORE).astype(np.uint8)


def look_over(words: U32) -> tuple[Bool, Bool]:
    """Which words end a path, as far as the word alone says, and which may use X9; made for a whole kernel's text.

    Those have a 9 where an instruction may name a register, or may use registers that they do not name. After XOR
    fields of 9 are 0, and only where one is does the subtraction borrow from a field's highest bit that is clear: half
    the operations of a comparison for each field.
    """
    kind = _KINDS.take(words >> np.uint32(_GROUP))  # one look-up instead of a pass for each pattern
    differ = words ^ np.uint32(X9) * _LOWEST
    uses: Bool = (differ - _LOWEST) & ~differ & _HIGHEST != 0
    return kind & _IN_ENDS != 0, uses | (kind & _IN_USES_MORE != 0)


def names(word: int, number: int) -> bool:
    """Whether an instruction may use a register."""
    named = any(word >> low & 31 == number for low in (0, 5, 10, 16))
    return named or any(word & mask == value for mask, value in _USES_MORE)


def _reads_unnamed(words: U32, number: int) -> Bool:
    """Which words read a register that they do not name."""
    first, before = field(words, 0), np.uint32(number - 1)
    stores = (matches(words, _OF_64_BYTES[0]) | matches(words, _OF_64_BYTES[1])) & (np.uint32(number) - first < 8)
    stores |= matches(words, _SME) & (field(words, 13, 2) == np.uint32(number - 8 & 31))
    if not number & 1:
        return stores
    pairs = np.logical_or.reduce([matches(words, pattern) for pattern in _PAIRS])
    pairs &= (first == before) | (field(words, 16) == before)
    result: Bool = stores | pairs | (matches(words, _SYSTEM_PAIR) & (first == before))
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
    of_two = matches(words, CB_COND)
    from_control = control & ((rt & (compare_branch | matches(words, _SYSTEM_WRITE))) | ((rn | rt) & indirect))
    from_control |= (of_two & (rt | (rm & (field(words, 24, 1) == 0)))) | (matches(words, _OF_TWO) & rn)

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
    from_memory |= (matches(words, _COPY_OR_SET) & (rt | rn | rm)) | (matches(words, _SET_TAGS) & (rt | rn))

    register = matches(words, (0x0E000000, 0x0A000000))
    compares_immediate = matches(words, (0x1FE00800, 0x1A400800))  # CCMP, CCMN with a number where Rm would be
    rmif = matches(words, (0x1FE07C00, 0x1A000400))
    three_sources = matches(words, (0x1F000000, 0x1B000000))
    from_register = register & (rn | (rm & ~compares_immediate & ~rmif) | (ra & three_sources))
    scalable = matches(words, (0x1E000000, 0x04000000)) | matches(words, (0x9E000000, 0x80000000))  # SVE, SME
    vector = (matches(words, (0x0E000000, 0x0E000000)) | scalable) & (rn | rm | rt)
    result: Bool = from_immediate | from_control | from_memory | from_register | vector
    return result | _reads_unnamed(words, number)


def must_write(words: U32, number: int = X9) -> Bool:
    """Which words, if they do not read X9 (or another register), certainly write it: the forms of temporaries."""
    rd = field(words, 0) == np.uint32(number)
    immediate = matches(words, (0x1C000000, 0x10000000))
    flags_only = matches(words, (0x1FE00000, 0x1A400000)) | matches(words, (0x1FE07C00, 0x1A000400))  # CCMP, CCMN; RMIF
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
    return _by_capstone(word, number)


def _by_capstone(word: int, number: int) -> Literal["read", "write", "neither"]:
    """Of an instruction's operands, capstone's text has all; its list of what is read lacks many.

    What it does not know counts as a read: an instruction that is newer than capstone.
    """
    text = insn_text(word)
    if text.startswith(".word"):
        return "read"
    first, _, others = text.partition(" ")[2].partition(",")
    name = re.compile(rf"\b[wx]{number}\b")
    read, written = register_use(word)
    if name.search(others) or (name.search(first) and number not in written):
        return "read"
    return "read" if number in read else "write" if number in written else "neither"


def _sources(word: int) -> tuple[int, ...] | None:
    """Registers that the most frequent branches, loads and stores read; None for all other instructions.

    One of their registers must be the one that is asked about, as ``may_read`` has found. Of atomics and of SYS,
    capstone 5 forgets all but the base.
    """
    first, base, second, index = (word >> low & 31 for low in (0, 5, 10, 16))
    if word & 0x7C000000 == 0x34000000 or word & _SYSTEM_WRITE[0] == _SYSTEM_WRITE[1]:  # CBZ, CBNZ, TBZ, TBNZ
        return (first,)
    if word & CB_COND[0] == CB_COND[1]:
        return (first, index) if not word >> 24 & 1 else (first,)
    if word & _OF_TWO[0] == _OF_TWO[1]:
        return (base,)
    if word & _SYSTEM_PAIR[0] == _SYSTEM_PAIR[1]:
        return first, first + 1
    if any(word & mask == value for mask, value in _OF_64_BYTES):
        return base, *range(first, first + 8)
    if word & _LOAD_64_BYTES[0] == _LOAD_64_BYTES[1]:
        return (base,)
    if word & _ATOMIC[0] == _ATOMIC[1] and (not word >> 15 & 1 or word >> 12 & 7 in (0, 4)):  # not LD64B and its kind
        return base, index
    if word & 0x3FA07C00 == 0x08A07C00:  # CAS
        return base, index, first
    if any(word & mask == value for mask, value in _PAIRS):
        return base, index, index + 1, first, first + 1
    if word & 0x3E000000 == 0x28000000:  # LDP, STP and their kind
        return (base,) if word >> 22 & 1 else (base, first, second)
    if word & 0x3F600000 == 0x08400000 or word & 0xBFE00000 == 0x88600000:  # LDXR, LDAR and their kind, LDXP
        return (base,)
    if word & 0xBFE00000 == 0x88200000:  # STXP
        return base, first, second
    if word & 0xFF200400 == 0xF8200400:  # LDRAA, LDRAB
        return (base,)
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


def ends_path_at(word: int) -> bool:
    """Whether a path ends at a word, as far as the word alone says: an array of one takes twenty times as long."""
    return any(word & mask == value for mask, value in _ENDS)
