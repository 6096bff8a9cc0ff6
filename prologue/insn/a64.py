"""A64 instruction words: the constants that ftrace uses, classes, branch arithmetic. One word at a time.

Every encoding is from the Arm ARM (DDI 0487), "A64 Base Instruction Descriptions"; the tests compare each
with what keystone assembles. All words are little-endian ``uint32``, addresses are ``uint64`` in bytes.
``prologue.insn.decode`` asks the same of arrays of words.
"""

from __future__ import annotations

from typing import Final

from prologue.insn.table import CLASSES, row_of

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


def classify(word: int) -> str | None:
    """Return the name in ``CLASSES`` that the word belongs to; the classes do not overlap."""
    name = row_of(word).name
    return name if name in CLASSES else None


def signed(value: int, bits: int) -> int:
    """Return ``value`` as a number in two's complement of ``bits`` bits; it has no others."""
    return value - (1 << bits) if value >> (bits - 1) else value


def signed_field(word: int, low: int, width: int) -> int:
    """Return ``width`` bits from bit ``low`` up as a signed number."""
    return signed(word >> low & (1 << width) - 1, width)


def branch_target(word: int, pc: int) -> int | None:
    """Return a direct branch's target from ``pc`` (B, BL, B.cond, BC.cond, CBZ, CBNZ, TBZ, TBNZ, CB<cc>), or None."""
    offset = row_of(word).target
    return None if offset is None else (pc + signed_field(word, *offset) * INSN_SIZE) & 0xFFFFFFFFFFFFFFFF


def encode_b(pc: int, target: int, *, link: bool = False) -> int:
    """Encode B (or BL) from ``pc`` to ``target``.

    Raises:
        ValueError: the target is unaligned or out of reach.

    """
    offset = target - pc
    if offset % INSN_SIZE or not -BL_REACH <= offset < BL_REACH:
        raise ValueError(f"{target:#x} is not reachable by a branch at {pc:#x}")
    return (0x94000000 if link else 0x14000000) | (offset // INSN_SIZE) & 0x3FFFFFF
