"""The one table of A64 instructions: encoding, name, flow, registers that are read and written, target of a branch.

Encodings are those of the Arm ARM (DDI 0487), "A64 instruction set encoding"; FEAT_LSUI, FEAT_CMPBR and FEAT_MOPS_GO
are by LLVM 22. The first row that matches a word counts. Rows are as coarse as registers and flow allow: all of LDADD's
kind is one row, and words of a row that are not allocated count as their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import Final, NamedTuple


class FlowKind(IntEnum):
    """Ways in which an instruction may change the flow of control."""

    PLAIN = 0  # goes on
    B = 1
    BL = 2
    CONDITIONAL = 3  # B.cond, CBZ, TBZ and their kind
    INDIRECT = 4  # BR
    CALL = 5  # BLR
    RET = 6
    ERET = 7
    CALLS_UP = 8  # SVC, HVC, SMC
    TRAP = 9  # BRK, HLT
    UNDEFINED = 10  # UDF
    UNKNOWN = 11  # of the branches' group, but no instruction that is known: a later architecture's may do anything


class InsnRow(NamedTuple):
    """A kind of instruction.

    Registers are general ones, by where a word names them: ``d``, ``n``, ``a`` and ``m`` are the fields at bits 4:0,
    9:5, 14:10 and 20:16; ``d+1`` and ``m+1`` the register after one, ``d+7`` the eight from ``d`` on; ``x30`` a
    register that is implied; ``w8`` and ``w12`` the one of four that bits 14:13 choose. Number 31 is SP or the zero
    register, which nothing asks for. ``?`` stands for any register: the row does not say. Of ``SCALABLE`` and
    ``UNALLOCATED``, the registers that may be read are listed.
    """

    name: str
    mask: int
    value: int
    reads: str = ""
    writes: str = ""
    flow: FlowKind = FlowKind.PLAIN
    target: tuple[int, int] | None = None  # lowest bit and width of a branch's signed offset, in instructions


_SAVED: Final = 19  # registers below may be changed by a call (AAPCS64, "General-purpose registers")
SCALABLE: Final = "SVE, SME"
UNALLOCATED: Final = "unallocated"

ROWS: Final = (
    # Reserved; scalable vectors and matrices
    InsnRow("UDF", 0xFFFF0000, 0x00000000, flow=FlowKind.UNDEFINED),
    InsnRow("RDVL, RDSVL", 0xFFFFF000, 0x04BF5000, writes="d"),
    InsnRow("ADDVL, ADDPL, ADDSVL, ADDSPL", 0xFFA0F000, 0x04205000, reads="m", writes="d"),
    InsnRow("CNTB, CNTH, CNTW, CNTD", 0xFF30FC00, 0x0420E000, writes="d"),
    InsnRow(SCALABLE, 0x9E000000, 0x80000000, reads="d n a m w8 w12", writes="?"),
    InsnRow(SCALABLE, 0x1E000000, 0x04000000, reads="d n a m", writes="?"),
    # Data processing, immediate
    InsnRow("ADR", 0x9F000000, 0x10000000, writes="d"),
    InsnRow("ADRP", 0x9F000000, 0x90000000, writes="d"),
    InsnRow("ADD Xd, Xn, #imm12", 0xFFC00000, 0x91000000, reads="n", writes="d"),
    InsnRow("MOVN, MOVZ", 0x3F800000, 0x12800000, writes="d"),
    InsnRow("MOVK", 0x7F800000, 0x72800000, reads="d", writes="d"),
    InsnRow("BFM", 0x7F800000, 0x33000000, reads="d n", writes="d"),
    InsnRow("AUTIASPPC, AUTIBSPPC", 0xFFC0001F, 0xF380001F, reads="x30", writes="x30"),
    InsnRow("EXTR", 0x1F800000, 0x13800000, reads="n m", writes="d"),
    InsnRow("ADD, SUB, AND, ORR, EOR, SBFM, UBFM (immediate)", 0x1C000000, 0x10000000, reads="n", writes="d"),
    # Branches, exceptions, system instructions
    InsnRow("B", 0xFC000000, 0x14000000, flow=FlowKind.B, target=(0, 26)),
    InsnRow("BL", 0xFC000000, 0x94000000, writes="x30", flow=FlowKind.BL, target=(0, 26)),
    InsnRow("B.cond", 0xFF00001E, 0x5400000E, flow=FlowKind.B, target=(5, 19)),  # B.AL and B.NV: always taken
    InsnRow("B.cond", 0xFF000010, 0x54000000, flow=FlowKind.CONDITIONAL, target=(5, 19)),
    InsnRow("BC.cond", 0xFF00001E, 0x5400001E, flow=FlowKind.B, target=(5, 19)),
    InsnRow("BC.cond", 0xFF000010, 0x54000010, flow=FlowKind.CONDITIONAL, target=(5, 19)),
    InsnRow("CBZ", 0x7F00001F, 0x3400001F, flow=FlowKind.B, target=(5, 19)),  # of the zero register: always taken
    InsnRow("CBZ", 0x7F000000, 0x34000000, reads="d", flow=FlowKind.CONDITIONAL, target=(5, 19)),
    InsnRow("CBNZ", 0x7F000000, 0x35000000, reads="d", flow=FlowKind.CONDITIONAL, target=(5, 19)),
    InsnRow("TBZ", 0x7F00001F, 0x3600001F, flow=FlowKind.B, target=(5, 14)),
    InsnRow("TBZ", 0x7F000000, 0x36000000, reads="d", flow=FlowKind.CONDITIONAL, target=(5, 14)),
    InsnRow("TBNZ", 0x7F000000, 0x37000000, reads="d", flow=FlowKind.CONDITIONAL, target=(5, 14)),
    InsnRow("CB<cc> (register)", 0x7F000000, 0x74000000, reads="d m", flow=FlowKind.CONDITIONAL, target=(5, 9)),
    InsnRow("CB<cc> (immediate)", 0x7F000000, 0x75000000, reads="d", flow=FlowKind.CONDITIONAL, target=(5, 9)),
    InsnRow("RETAASPPC, RETABSPPC", 0xFFC0001F, 0x5500001F, reads="x30", flow=FlowKind.RET),
    InsnRow("SVC", 0xFFE0001F, 0xD4000001, writes="?", flow=FlowKind.CALLS_UP),  # what answers may write any register
    InsnRow("HVC", 0xFFE0001F, 0xD4000002, writes="?", flow=FlowKind.CALLS_UP),
    InsnRow("SMC", 0xFFE0001F, 0xD4000003, writes="?", flow=FlowKind.CALLS_UP),
    InsnRow("BRK", 0xFFE0001F, 0xD4200000, flow=FlowKind.TRAP),
    InsnRow("HLT", 0xFFE0001F, 0xD4400000, flow=FlowKind.TRAP),
    InsnRow("DCPS", 0xFF000000, 0xD4000000),
    InsnRow("NOP", 0xFFFFFFFF, 0xD503201F),
    InsnRow("BTI", 0xFFFFFF3F, 0xD503241F),
    InsnRow("XPACLRI", 0xFFFFFFFF, 0xD50320FF, reads="x30", writes="x30"),
    InsnRow("PACIA1716, AUTIA1716", 0xFFFFFF3F, 0xD503211F, reads="x16 x17", writes="x17"),
    InsnRow("PACIASP, AUTIASP", 0xFFFFFF1F, 0xD503231F, reads="x30", writes="x30"),
    InsnRow("CHKFEAT", 0xFFFFFFFF, 0xD503251F, reads="x16", writes="x16"),
    InsnRow("HINT", 0xFFFFF01F, 0xD503201F),
    InsnRow("ISB", 0xFFFFF0FF, 0xD50330DF),
    InsnRow("MSR, SYS", 0xFFE00000, 0xD5000000, reads="d"),  # also WFET, WFIT; others have no register at bits 4:0
    InsnRow("MRS, SYSL", 0xFFE00000, 0xD5200000, writes="d"),
    InsnRow("MSRR, SYSP", 0xFFE00000, 0xD5400000, reads="d d+1"),
    InsnRow("MRRS", 0xFFE00000, 0xD5600000, writes="d d+1"),
    InsnRow("TCHANGEF, TCHANGEB", 0xFF800000, 0xD5800000, reads="n", writes="d"),
    InsnRow("TEXIT", 0xFFFFFBFF, 0xD6FF03E0, flow=FlowKind.ERET),
    InsnRow("BRAAZ, BRABZ", 0xFFFFF81F, 0xD61F081F, reads="n", flow=FlowKind.INDIRECT),
    InsnRow("BLRAAZ, BLRABZ", 0xFFFFF81F, 0xD63F081F, reads="n", writes="x30", flow=FlowKind.CALL),
    InsnRow("BR", 0xFFFFFC1F, 0xD61F0000, reads="n", flow=FlowKind.INDIRECT),
    InsnRow("BLR", 0xFFFFFC1F, 0xD63F0000, reads="n", writes="x30", flow=FlowKind.CALL),
    InsnRow("RET", 0xFFFFFC1F, 0xD65F0000, reads="n", flow=FlowKind.RET),
    InsnRow("RETAA, RETAB", 0xFFFFFBFF, 0xD65F0BFF, reads="x30", flow=FlowKind.RET),
    InsnRow("RETAASPPCR, RETABSPPCR", 0xFFFFFBE0, 0xD65F0BE0, reads="d x30", flow=FlowKind.RET),
    InsnRow("ERETAA, ERETAB", 0xFFFFFBFF, 0xD69F0BFF, flow=FlowKind.ERET),
    InsnRow("ERET", 0xFFFFFFFF, 0xD69F03E0, flow=FlowKind.ERET),
    InsnRow("BRAA, BRAB", 0xFFFFF800, 0xD71F0800, reads="d n", flow=FlowKind.INDIRECT),
    InsnRow("BLRAA, BLRAB", 0xFFFFF800, 0xD73F0800, reads="d n", writes="x30", flow=FlowKind.CALL),
    InsnRow(UNALLOCATED, 0xFE000000, 0xD6000000, reads="d n", writes="?", flow=FlowKind.UNKNOWN),
    InsnRow(UNALLOCATED, 0x1C000000, 0x14000000, writes="?", flow=FlowKind.UNKNOWN),
    # Loads and stores: exclusive, ordered, compare and swap
    InsnRow("CASP", 0xBFA07C00, 0x08207C00, reads="n m m+1 d d+1", writes="m m+1"),
    InsnRow("CASPT", 0xFFA07C00, 0x49807C00, reads="n m m+1 d d+1", writes="m m+1"),
    InsnRow("CAS", 0x3FA07C00, 0x08A07C00, reads="n m d", writes="m"),
    InsnRow("CAST", 0xBFA07C00, 0x89807C00, reads="n m d", writes="m"),
    InsnRow("LDXP, LDAXP", 0xBFE00000, 0x88600000, reads="n", writes="d a"),
    InsnRow("STXP, STLXP", 0xBFE00000, 0x88200000, reads="n d a", writes="m"),
    InsnRow("LDXR, LDAR", 0x3F600000, 0x08400000, reads="n", writes="d"),
    InsnRow("STXR, STLXR", 0x3FE00000, 0x08000000, reads="n d", writes="m"),
    InsnRow("STLR, STLLR", 0x3FE00000, 0x08800000, reads="n d"),
    InsnRow("LDTXR, LDATXR", 0xBFE00000, 0x89400000, reads="n", writes="d"),
    InsnRow("STTXR, STLTXR", 0xBFE00000, 0x89000000, reads="n d", writes="m"),
    InsnRow("LDIAPP", 0xBFE0FC00, 0x99401800, reads="n", writes="d m"),
    InsnRow("LDIAPP Rt, Rt2, [Rn], #", 0xBFE0FC00, 0x99400800, reads="n", writes="d m n"),
    InsnRow("STILP", 0xBFE0FC00, 0x99001800, reads="n d m"),
    InsnRow("STILP Rt, Rt2, [Rn, #]!", 0xBFE0FC00, 0x99000800, reads="n d m", writes="n"),
    InsnRow("LDAPR Rt, [Rn], #", 0xBFFFFC00, 0x99C00800, reads="n", writes="d n"),
    InsnRow("STLR Rt, [Rn, #]!", 0xBFFFFC00, 0x99800800, reads="n d", writes="n"),
    InsnRow("STGM, STZGM", 0xFF7FFC00, 0xD9200000, reads="n d"),
    InsnRow("GCSSTR, GCSSTTR", 0xFFFFEC00, 0xD91F0C00, reads="n d"),
    InsnRow("LDGM", 0xFFFFFC00, 0xD9E00000, reads="n", writes="d"),
    InsnRow("LDG", 0xFFE00C00, 0xD9600000, reads="n d", writes="d"),
    InsnRow("STG, ST2G", 0xFF200C00, 0xD9200800, reads="n d"),
    InsnRow("STG, ST2G, base written back", 0xFF200400, 0xD9200400, reads="n d", writes="n"),
    InsnRow("SET, SETG", 0xFBE00C00, 0x19C00400, reads="d n m", writes="d n"),
    InsnRow("CPY, CPYF", 0xFB200C00, 0x19000400, reads="d n m", writes="d n m"),
    InsnRow("SETGO", 0xFFE00C00, 0x1DC00000, reads="d n", writes="d n"),
    InsnRow("LDCLRP, LDSETP, SWPP, RCWCLRP", 0xBF204C00, 0x19200000, reads="n d m", writes="d m"),
    InsnRow("LDTADD, SWPT", 0xBF200C00, 0x19200400, reads="n m", writes="d"),
    InsnRow("RCWCAS", 0xBF20FC00, 0x19200800, reads="n m d", writes="m"),
    InsnRow("RCWCASP", 0xBF20FC00, 0x19200C00, reads="n m m+1 d d+1", writes="m m+1"),
    InsnRow("STLUR", 0x3FE00C00, 0x19000000, reads="n d"),
    InsnRow("LDAPUR", 0x3F200C00, 0x19000000, reads="n", writes="d"),
    InsnRow("LDR Xt, label", 0xFF000000, 0x58000000, writes="d"),
    InsnRow("PRFM label", 0xFF000000, 0xD8000000),
    InsnRow("LDR label", 0x3F000000, 0x18000000, writes="d"),
    InsnRow("STP", 0x3EC00000, 0x28000000, reads="n d a"),
    InsnRow("STP, base written back", 0x3E400000, 0x28000000, reads="n d a", writes="n"),
    InsnRow("LDP", 0x3EC00000, 0x28400000, reads="n", writes="d a"),
    InsnRow("LDP, base written back", 0x3E400000, 0x28400000, reads="n", writes="d a n"),
    InsnRow("ST64B", 0xFFFFFC00, 0xF83F9000, reads="n d d+7"),
    InsnRow("ST64BV, ST64BV0", 0xFFE0EC00, 0xF820A000, reads="n d d+7", writes="m"),
    InsnRow("LD64B", 0xFFFFFC00, 0xF83FD000, reads="n", writes="d d+7"),
    InsnRow("LDAPR", 0x3F20FC00, 0x3820C000, reads="n", writes="d"),
    InsnRow("LDADD, SWP", 0x3F200C00, 0x38200000, reads="n m", writes="d"),
    InsnRow("LDRAA, LDRAB", 0xFF200C00, 0xF8200400, reads="n", writes="d"),
    InsnRow("LDRAA, LDRAB, base written back", 0xFF200C00, 0xF8200C00, reads="n", writes="d n"),
    InsnRow("PRFM (immediate)", 0xFFC00000, 0xF9800000, reads="n"),
    InsnRow("PRFUM", 0xFFE00C00, 0xF8800000, reads="n"),
    InsnRow("PRFM (register)", 0xFFE00C00, 0xF8A00800, reads="n m"),
    InsnRow("STR (immediate)", 0x3FC00000, 0x39000000, reads="n d"),
    InsnRow("LDR (immediate)", 0x3F000000, 0x39000000, reads="n", writes="d"),
    InsnRow("STUR, STTR", 0x3FE00400, 0x38000000, reads="n d"),
    InsnRow("STR, base written back", 0x3FE00400, 0x38000400, reads="n d", writes="n"),
    InsnRow("LDUR, LDTR", 0x3F200400, 0x38000000, reads="n", writes="d"),
    InsnRow("LDR, base written back", 0x3F200400, 0x38000400, reads="n", writes="d n"),
    InsnRow("STR (register)", 0x3FE00C00, 0x38200800, reads="n d m"),
    InsnRow("LDR (register)", 0x3F200C00, 0x38200800, reads="n m", writes="d"),
    InsnRow("LDR (vector) label", 0x3F000000, 0x1C000000),
    InsnRow("STP, LDP (vector), base written back", 0x3E800000, 0x2C800000, reads="n", writes="n"),
    InsnRow("STR, LDR (vector), base written back", 0x3F200400, 0x3C000400, reads="n", writes="n"),
    InsnRow("STR, LDR (vector, register)", 0x3F200C00, 0x3C200800, reads="n m"),
    InsnRow("ST1, LD1, base written back", 0xBE800000, 0x0C800000, reads="n m", writes="n"),
    InsnRow("LDR, STP, LD1, LDFADD (vector)", 0x0E000000, 0x0C000000, reads="n"),
    InsnRow(UNALLOCATED, 0x0A000000, 0x08000000, reads="d n a m", writes="?"),
    # Data processing, register
    InsnRow("RMIF", 0xFFE07C10, 0xBA000400, reads="n"),
    InsnRow("SETF", 0xFFFFBC1F, 0x3A00080D, reads="n"),
    InsnRow("CCMP, CCMN (immediate)", 0x1FE00800, 0x1A400800, reads="n"),
    InsnRow("CCMP, CCMN (register)", 0x1FE00800, 0x1A400000, reads="n m"),
    InsnRow("PACIA171615, AUTIA171615", 0xFFFFCBFF, 0xDAC18BFE, reads="x15 x16 x17", writes="x17"),
    InsnRow("PACIASPPC", 0xFFFF8000, 0xDAC18000, reads="n x30", writes="x30"),
    InsnRow("PACIA, AUTIA, XPACI", 0xFFFF8000, 0xDAC10000, reads="d n", writes="d"),
    InsnRow("SMULH, UMULH", 0x1F600000, 0x1B400000, reads="n m", writes="d"),
    InsnRow("MADD", 0x1F000000, 0x1B000000, reads="n m a", writes="d"),
    InsnRow("CLZ, REV", 0x5FE00000, 0x5AC00000, reads="n", writes="d"),
    InsnRow("ADD, AND, CSEL, UDIV (register)", 0x0E000000, 0x0A000000, reads="n m", writes="d"),
    # Vectors and floating point
    InsnRow("SCVTF, UCVTF (from general)", 0x5F3EFC00, 0x1E220000, reads="n"),
    InsnRow("FMOV (from general)", 0x5F37FC00, 0x1E270000, reads="n"),
    InsnRow("FCVT, FMOV (to general)", 0x5F20FC00, 0x1E200000, writes="d"),
    InsnRow("SCVTF, UCVTF (fixed point)", 0x5F3E0000, 0x1E020000, reads="n"),
    InsnRow("FCVTZS, FCVTZU (fixed point)", 0x5F3E0000, 0x1E180000, writes="d"),
    InsnRow("DUP (general)", 0xBFE0FC00, 0x0E000C00, reads="n"),
    InsnRow("INS (general)", 0xFFE0FC00, 0x4E001C00, reads="n"),
    InsnRow("SMOV, UMOV", 0xBFE0EC00, 0x0E002C00, writes="d"),
    InsnRow("vectors", 0x0E000000, 0x0E000000),
    InsnRow(UNALLOCATED, 0, 0, writes="?"),
)

CLASSES: Final = {
    row.name: (row.mask, row.value)  # of two rows, the later one has the whole class
    for row in ROWS
    if row.name in {
        "NOP", "B", "BL", "BRK", "HVC", "ISB", "SMC", "SVC", "B.cond", "CBZ", "CBNZ", "TBZ", "TBNZ", "RET", "BR", "BLR",
        "BTI",
    }
}  # fmt: skip
"""Mask and value of the classes that the CMODX lists and the control-flow walks need; they do not overlap."""


@cache
def _candidates(top: int) -> tuple[InsnRow, ...]:
    """Return the rows that may match words with these bits 31:21, in order."""
    return tuple(row for row in ROWS if (row.value ^ top << 21) & row.mask >> 21 << 21 == 0)


def row_of(word: int) -> InsnRow:
    """Return the row of a word."""
    return next(row for row in _candidates(word >> 21) if word & row.mask == row.value)


def pattern(name: str, *others: str) -> tuple[int, int]:
    """Return mask and value of a row, or of rows that differ in a few bits only and fill every value of these."""
    rows = [row for row in ROWS if row.name in (name, *others)]
    mask = rows[0].mask
    for row in rows:
        mask &= row.mask & ~(row.value ^ rows[0].value)
    return mask, rows[0].value & mask


def registers(word: int, column: str) -> frozenset[int]:
    """Return the numbers of the registers that a row's column means in a word; of ``?``, all."""
    d, m = word & 31, word >> 16 & 31
    fields: dict[str, Sequence[int]] = {"d": (d,), "n": (word >> 5 & 31,), "a": (word >> 10 & 31,), "m": (m,)}
    fields |= {"d+1": (d + 1,), "m+1": (m + 1,), "d+7": range(d, d + 8), "?": range(31)}
    fields |= {"w8": (8 + (word >> 13 & 3),), "w12": (12 + (word >> 13 & 3),)}
    tokens = column.split()
    return frozenset(number for token in tokens for number in fields.get(token) or (int(token[1:]),))


def writes(word: int) -> frozenset[int]:
    """Return the numbers of the general registers that an instruction writes, also of a base that is written back."""
    return registers(word, row_of(word).writes)


def surely_writes(word: int, register: int) -> bool:
    """Return whether an instruction, or the function that it calls, writes a register."""
    row = row_of(word)
    if register < _SAVED and row.flow in (FlowKind.BL, FlowKind.CALL):
        return True
    return "?" not in row.writes and register in registers(word, row.writes)
