"""What instructions may do with X9, which the MOV overwrites: masks over arrays of words.

All of them can be asked about another register, to which a value in X9 was moved. They say "may read" too often and
never too seldom; ``prologue.insn.effect`` decides on the few words that they stop at.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import U32, Bool
from prologue.insn.decode import BL, CB_COND, CB_OR_TB, CONTROL, INDIRECT, Pattern, field, matches

X9: Final = 9
# (mask, value) of loads and stores: with a register as offset; LDXR and its kind; STXR and its kind, whose status
# register stands where others have a source.
_BY_REGISTER: Final[Pattern] = (0x3B200C00, 0x38200800)
_EXCLUSIVE_LOAD: Final[Pattern] = (0x3F600000, 0x08400000)
_EXCLUSIVE_STORE: Final[Pattern] = (0x3FE00000, 0x08000000)
_ATOMIC: Final[Pattern] = (0x3F200C00, 0x38200000)  # LDADD, SWP and their kind, LDAPR
SYSTEM_WRITE: Final[Pattern] = (0xFFE00000, 0xD5000000)  # MSR, and SYS: DC, IC, TLBI, AT; MRS has bit 21 set

_COPY_OR_SET: Final[Pattern] = (0xFB200C00, 0x19000400)  # CPYP, SETP and their kind (FEAT_MOPS)
_SET_TAGS: Final[Pattern] = (0xFFE00C00, 0x1DC00000)  # SETGOP and its kind
TAG_CHANGE: Final[Pattern] = (0xFF800000, 0xD5800000)  # TCHANGEF and its kind: system instructions with an Rn
_SIGNING: Final[Pattern] = (0xFFFF0000, 0xDAC10000)  # PACIA, AUTIA, XPACI and their kind change Rd
_SIGNED_RETURN: Final[Pattern] = (0xFFC0001F, 0xF380001F)  # AUTIASPPC: an immediate at bits 20:5

# Instructions that use more registers than they name: CASP X2, X3, X4, X5, [X6] names X2, X4 and X6 only, and ST64B X2
# stores X2 to X9.
PAIRS: Final[tuple[Pattern, ...]] = (  # two of them: CASP; RCWCASP and RCWSCASP; CASPT
    (0xBFA07C00, 0x08207C00), (0xBF20FC00, 0x19200C00), (0xFFA00000, 0x49800000),
)  # fmt: skip
SYSTEM_PAIR: Final[Pattern] = (0xFFE00000, 0xD5400000)  # MSRR, SYSP
OF_64_BYTES: Final[tuple[Pattern, ...]] = ((0xFFE0DC01, 0xF8209000), (0xFFE0FC01, 0xF820A000))  # ST64B; ST64BV0
_SME: Final[Pattern] = (0x9E000000, 0x80000000)  # at bits 14:13 may stand W8-W11, as 0-3
# All of these and a few others, by the bits from _GROUP up.
USES_MORE: Final[tuple[Pattern, ...]] = (_SME, SYSTEM_PAIR, (0xAE000000, 0x08000000), (0xFFE00000, 0xF8200000))
# Calls, BRK, indirect jumps, returns, exception returns, and what is no instruction; by the same bits.
ENDS: Final[tuple[Pattern, ...]] = (BL, (0xFFE00000, 0xD4200000), INDIRECT, (0xFFC00000, 0x55000000), (0xFFE00000, 0))
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
_KINDS: Final = (_groups(ENDS) * _IN_ENDS | _groups(USES_MORE) * _IN_USES_MORE).astype(np.uint8)


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


def _reads_unnamed(words: U32, number: int) -> Bool:
    """Which words read a register that they do not name."""
    first, before = field(words, 0), np.uint32(number - 1)
    stores = (matches(words, OF_64_BYTES[0]) | matches(words, OF_64_BYTES[1])) & (np.uint32(number) - first < 8)
    stores |= matches(words, _SME) & (field(words, 13, 2) == np.uint32(number - 8 & 31))
    if not number & 1:
        return stores
    pairs = np.logical_or.reduce([matches(words, pattern) for pattern in PAIRS])
    pairs &= (first == before) | (field(words, 16) == before)
    result: Bool = stores | pairs | (matches(words, SYSTEM_PAIR) & (first == before))
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
    from_immediate = (
        immediate & ~adr & ~matches(words, _SIGNED_RETURN) & ((rn & ~wide) | (rt & partly) | (rm & extract))
    )

    control = matches(words, CONTROL)
    compare_branch = matches(words, CB_OR_TB)
    indirect = matches(words, INDIRECT)
    compares = matches(words, CB_COND)  # with the register at 20:16, or a number there
    system = matches(words, SYSTEM_WRITE) | matches(words, SYSTEM_PAIR)
    from_control = control & ((rt & (compare_branch | system)) | ((rn | rt) & indirect))
    from_control |= (compares & (rt | (rm & (field(words, 24, 1) == 0)))) | (matches(words, TAG_CHANGE) & rn)

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
    three_sources = matches(words, (0x1F000000, 0x1B000000)) & ~matches(words, (0x1F600000, 0x1B400000))  # not SMULH
    from_register = register & (rn | (rm & ~compares_immediate & ~rmif) | (ra & three_sources))
    from_register |= matches(words, _SIGNING) & rt
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
