"""A64 instruction words: the constants that ftrace uses, classes, branch arithmetic. One word at a time.

Every encoding is from the Arm ARM (DDI 0487), "A64 Base Instruction Descriptions"; the tests compare each
with what keystone assembles. All words are little-endian ``uint32``, addresses are ``uint64`` in bytes.
``prologue.insn.decode`` asks the same of arrays of words.
"""

from __future__ import annotations

from typing import Final

INSN_SIZE: Final = 4

NOP: Final = 0xD503201F  # HINT #0; exactly this word, not any HINT
MOV_X9_X30: Final = 0xAA1E03E9  # ORR X9, XZR, X30
MOV_W0_0: Final = 0x52800000  # MOVZ W0, #0
RET: Final = 0xD65F03C0  # RET X30
BTI: Final = 0xD503241F
BTI_C: Final = 0xD503245F
BTI_J: Final = 0xD503249F
BTI_JC: Final = 0xD50324DF
PACIASP: Final = 0xD503233F
AUTIASP: Final = 0xD50323BF
BR_X16: Final = 0xD61F0200  # how a veneer and a PLT entry end
SCS_PUSH: Final = 0xF800865E  # STR X30, [X18], #8: what dynamic SCS makes of PACIASP

BTI_MASK: Final = 0xFFFFFF3F  # HINT #32..#38: the two target bits masked out

BL_REACH: Final = 128 << 20  # BL and B reach [-128 MiB, +128 MiB)

# name -> (mask, value): the classes that the CMODX lists and the control-flow walks need.
CLASSES: Final[dict[str, tuple[int, int]]] = {
    "NOP": (0xFFFFFFFF, NOP),
    "B": (0xFC000000, 0x14000000),
    "BL": (0xFC000000, 0x94000000),
    "BRK": (0xFFE0001F, 0xD4200000),
    "HVC": (0xFFE0001F, 0xD4000002),
    "ISB": (0xFFFFF0FF, 0xD50330DF),
    "SMC": (0xFFE0001F, 0xD4000003),
    "SVC": (0xFFE0001F, 0xD4000001),
    "B.cond": (0xFF000010, 0x54000000),
    "CBZ": (0x7F000000, 0x34000000),
    "CBNZ": (0x7F000000, 0x35000000),
    "TBZ": (0x7F000000, 0x36000000),
    "TBNZ": (0x7F000000, 0x37000000),
    "RET": (0xFFFFFC1F, 0xD65F0000),
    "BR": (0xFFFFFC1F, 0xD61F0000),
    "BLR": (0xFFFFFC1F, 0xD63F0000),
    "BTI": (BTI_MASK, BTI),
}

_IMM19 = frozenset({"B.cond", "CBZ", "CBNZ"})
_IMM14 = frozenset({"TBZ", "TBNZ"})
# FEAT_HBC and FEAT_CMPBR: they are on no issue's list of CMODX, so they have no class.
_BC_COND = (0xFF000010, 0x54000010)
CB_COND: Final = (0x7E000000, 0x74000000)


def is_bti(word: int) -> bool:
    """Whether the word is BTI, BTI C, BTI J or BTI JC."""
    return word & BTI_MASK == BTI


def classify(word: int) -> str | None:
    """Return the name in ``CLASSES`` that the word belongs to; the classes do not overlap."""
    for name, (mask, value) in CLASSES.items():
        if word & mask == value:
            return name
    return None


def signed(value: int, bits: int) -> int:
    """The number that the lowest ``bits`` bits are in two's complement; ``value`` has no others."""
    return value - (1 << bits) if value >> (bits - 1) else value


def signed_field(word: int, low: int, width: int) -> int:
    """``width`` bits from bit ``low`` up as a signed number."""
    return signed(word >> low & (1 << width) - 1, width)


def branch_target(word: int, pc: int) -> int | None:
    """Where a direct branch at address ``pc`` goes (B, BL, B.cond, BC.cond, CBZ, CBNZ, TBZ, TBNZ, CB<cc>), or None."""
    kind = classify(word)
    if kind in ("B", "BL"):
        offset = signed_field(word, 0, 26)
    elif kind in _IMM19 or word & _BC_COND[0] == _BC_COND[1]:
        offset = signed_field(word, 5, 19)
    elif kind in _IMM14:
        offset = signed_field(word, 5, 14)
    elif word & CB_COND[0] == CB_COND[1]:
        offset = signed_field(word, 5, 9)
    else:
        return None
    return (pc + offset * INSN_SIZE) & 0xFFFFFFFFFFFFFFFF


def encode_b(pc: int, target: int, *, link: bool = False) -> int:
    """Encode B (or BL) from ``pc`` to ``target``.

    Raises:
        ValueError: the target is unaligned or out of reach.

    """
    offset = target - pc
    if offset % INSN_SIZE or not -BL_REACH <= offset < BL_REACH:
        raise ValueError(f"{target:#x} is not reachable by a branch at {pc:#x}")
    return (0x94000000 if link else 0x14000000) | (offset // INSN_SIZE) & 0x3FFFFFF
