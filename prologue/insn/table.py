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
    """How an instruction may change the flow of control."""

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


class Row(NamedTuple):
    """One kind of instruction.

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


SCALABLE: Final = "SVE, SME"
UNALLOCATED: Final = "unallocated"

ROWS: Final = (
    # Reserved; scalable vectors and matrices
    Row("UDF", 0xFFFF0000, 0x00000000, flow=FlowKind.UNDEFINED),
    Row("RDVL, RDSVL", 0xFFFFF000, 0x04BF5000, "", "d"),
    Row("ADDVL, ADDPL, ADDSVL, ADDSPL", 0xFFA0F000, 0x04205000, "m", "d"),
    Row("CNTB, CNTH, CNTW, CNTD", 0xFF30FC00, 0x0420E000, "", "d"),
    Row(SCALABLE, 0x9E000000, 0x80000000, "d n a m w8 w12", "?"),
    Row(SCALABLE, 0x1E000000, 0x04000000, "d n a m", "?"),
    # Data processing, immediate
    Row("ADR", 0x9F000000, 0x10000000, "", "d"),
    Row("ADRP", 0x9F000000, 0x90000000, "", "d"),
    Row("ADD Xd, Xn, #imm12", 0xFFC00000, 0x91000000, "n", "d"),
    Row("MOVN, MOVZ", 0x3F800000, 0x12800000, "", "d"),
    Row("MOVK", 0x7F800000, 0x72800000, "d", "d"),
    Row("BFM", 0x7F800000, 0x33000000, "d n", "d"),
    Row("AUTIASPPC, AUTIBSPPC", 0xFFC0001F, 0xF380001F, "x30", "x30"),
    Row("EXTR", 0x1F800000, 0x13800000, "n m", "d"),
    Row("ADD, SUB, AND, ORR, EOR, SBFM, UBFM (immediate)", 0x1C000000, 0x10000000, "n", "d"),
    # Branches, exceptions, system instructions
    Row("B", 0xFC000000, 0x14000000, flow=FlowKind.B, target=(0, 26)),
    Row("BL", 0xFC000000, 0x94000000, "", "x30", FlowKind.BL, (0, 26)),
    Row("B.cond", 0xFF00001E, 0x5400000E, flow=FlowKind.B, target=(5, 19)),  # B.AL and B.NV: always taken
    Row("B.cond", 0xFF000010, 0x54000000, flow=FlowKind.CONDITIONAL, target=(5, 19)),
    Row("BC.cond", 0xFF00001E, 0x5400001E, flow=FlowKind.B, target=(5, 19)),
    Row("BC.cond", 0xFF000010, 0x54000010, flow=FlowKind.CONDITIONAL, target=(5, 19)),
    Row("CBZ", 0x7F00001F, 0x3400001F, flow=FlowKind.B, target=(5, 19)),  # of the zero register: always taken
    Row("CBZ", 0x7F000000, 0x34000000, "d", "", FlowKind.CONDITIONAL, (5, 19)),
    Row("CBNZ", 0x7F000000, 0x35000000, "d", "", FlowKind.CONDITIONAL, (5, 19)),
    Row("TBZ", 0x7F00001F, 0x3600001F, flow=FlowKind.B, target=(5, 14)),
    Row("TBZ", 0x7F000000, 0x36000000, "d", "", FlowKind.CONDITIONAL, (5, 14)),
    Row("TBNZ", 0x7F000000, 0x37000000, "d", "", FlowKind.CONDITIONAL, (5, 14)),
    Row("CB<cc> (register)", 0x7F000000, 0x74000000, "d m", "", FlowKind.CONDITIONAL, (5, 9)),
    Row("CB<cc> (immediate)", 0x7F000000, 0x75000000, "d", "", FlowKind.CONDITIONAL, (5, 9)),
    Row("RETAASPPC, RETABSPPC", 0xFFC0001F, 0x5500001F, "x30", "", FlowKind.RET),
    Row("SVC", 0xFFE0001F, 0xD4000001, "", "?", FlowKind.CALLS_UP),  # what answers may write any register
    Row("HVC", 0xFFE0001F, 0xD4000002, "", "?", FlowKind.CALLS_UP),
    Row("SMC", 0xFFE0001F, 0xD4000003, "", "?", FlowKind.CALLS_UP),
    Row("BRK", 0xFFE0001F, 0xD4200000, flow=FlowKind.TRAP),
    Row("HLT", 0xFFE0001F, 0xD4400000, flow=FlowKind.TRAP),
    Row("DCPS", 0xFF000000, 0xD4000000),
    Row("NOP", 0xFFFFFFFF, 0xD503201F),
    Row("BTI", 0xFFFFFF3F, 0xD503241F),
    Row("XPACLRI", 0xFFFFFFFF, 0xD50320FF, "x30", "x30"),
    Row("PACIA1716, AUTIA1716", 0xFFFFFF3F, 0xD503211F, "x16 x17", "x17"),
    Row("PACIASP, AUTIASP", 0xFFFFFF1F, 0xD503231F, "x30", "x30"),
    Row("CHKFEAT", 0xFFFFFFFF, 0xD503251F, "x16", "x16"),
    Row("HINT", 0xFFFFF01F, 0xD503201F),
    Row("ISB", 0xFFFFF0FF, 0xD50330DF),
    Row("MSR, SYS", 0xFFE00000, 0xD5000000, "d"),  # also WFET, WFIT; others have no register at bits 4:0
    Row("MRS, SYSL", 0xFFE00000, 0xD5200000, "", "d"),
    Row("MSRR, SYSP", 0xFFE00000, 0xD5400000, "d d+1"),
    Row("MRRS", 0xFFE00000, 0xD5600000, "", "d d+1"),
    Row("TCHANGEF, TCHANGEB", 0xFF800000, 0xD5800000, "n", "d"),
    Row("TEXIT", 0xFFFFFBFF, 0xD6FF03E0, flow=FlowKind.ERET),
    Row("BRAAZ, BRABZ", 0xFFFFF81F, 0xD61F081F, "n", "", FlowKind.INDIRECT),
    Row("BLRAAZ, BLRABZ", 0xFFFFF81F, 0xD63F081F, "n", "x30", FlowKind.CALL),
    Row("BR", 0xFFFFFC1F, 0xD61F0000, "n", "", FlowKind.INDIRECT),
    Row("BLR", 0xFFFFFC1F, 0xD63F0000, "n", "x30", FlowKind.CALL),
    Row("RET", 0xFFFFFC1F, 0xD65F0000, "n", "", FlowKind.RET),
    Row("RETAA, RETAB", 0xFFFFFBFF, 0xD65F0BFF, "x30", "", FlowKind.RET),
    Row("RETAASPPCR, RETABSPPCR", 0xFFFFFBE0, 0xD65F0BE0, "d x30", "", FlowKind.RET),
    Row("ERETAA, ERETAB", 0xFFFFFBFF, 0xD69F0BFF, flow=FlowKind.ERET),
    Row("ERET", 0xFFFFFFFF, 0xD69F03E0, flow=FlowKind.ERET),
    Row("BRAA, BRAB", 0xFFFFF800, 0xD71F0800, "d n", "", FlowKind.INDIRECT),
    Row("BLRAA, BLRAB", 0xFFFFF800, 0xD73F0800, "d n", "x30", FlowKind.CALL),
    Row(UNALLOCATED, 0xFE000000, 0xD6000000, "d n", "?", FlowKind.UNKNOWN),
    Row(UNALLOCATED, 0x1C000000, 0x14000000, "", "?", FlowKind.UNKNOWN),
    # Loads and stores: exclusive, ordered, compare and swap
    Row("CASP", 0xBFA07C00, 0x08207C00, "n m m+1 d d+1", "m m+1"),
    Row("CASPT", 0xFFA07C00, 0x49807C00, "n m m+1 d d+1", "m m+1"),
    Row("CAS", 0x3FA07C00, 0x08A07C00, "n m d", "m"),
    Row("CAST", 0xBFA07C00, 0x89807C00, "n m d", "m"),
    Row("LDXP, LDAXP", 0xBFE00000, 0x88600000, "n", "d a"),
    Row("STXP, STLXP", 0xBFE00000, 0x88200000, "n d a", "m"),
    Row("LDXR, LDAR", 0x3F600000, 0x08400000, "n", "d"),
    Row("STXR, STLXR", 0x3FE00000, 0x08000000, "n d", "m"),
    Row("STLR, STLLR", 0x3FE00000, 0x08800000, "n d"),
    Row("LDTXR, LDATXR", 0xBFE00000, 0x89400000, "n", "d"),
    Row("STTXR, STLTXR", 0xBFE00000, 0x89000000, "n d", "m"),
    Row("LDIAPP", 0xBFE0FC00, 0x99401800, "n", "d m"),
    Row("LDIAPP Rt, Rt2, [Rn], #", 0xBFE0FC00, 0x99400800, "n", "d m n"),
    Row("STILP", 0xBFE0FC00, 0x99001800, "n d m"),
    Row("STILP Rt, Rt2, [Rn, #]!", 0xBFE0FC00, 0x99000800, "n d m", "n"),
    Row("LDAPR Rt, [Rn], #", 0xBFFFFC00, 0x99C00800, "n", "d n"),
    Row("STLR Rt, [Rn, #]!", 0xBFFFFC00, 0x99800800, "n d", "n"),
    Row("STGM, STZGM", 0xFF7FFC00, 0xD9200000, "n d"),
    Row("GCSSTR, GCSSTTR", 0xFFFFEC00, 0xD91F0C00, "n d"),
    Row("LDGM", 0xFFFFFC00, 0xD9E00000, "n", "d"),
    Row("LDG", 0xFFE00C00, 0xD9600000, "n d", "d"),
    Row("STG, ST2G", 0xFF200C00, 0xD9200800, "n d"),
    Row("STG, ST2G, base written back", 0xFF200400, 0xD9200400, "n d", "n"),
    Row("SET, SETG", 0xFBE00C00, 0x19C00400, "d n m", "d n"),
    Row("CPY, CPYF", 0xFB200C00, 0x19000400, "d n m", "d n m"),
    Row("SETGO", 0xFFE00C00, 0x1DC00000, "d n", "d n"),
    Row("LDCLRP, LDSETP, SWPP, RCWCLRP", 0xBF204C00, 0x19200000, "n d m", "d m"),
    Row("LDTADD, SWPT", 0xBF200C00, 0x19200400, "n m", "d"),
    Row("RCWCAS", 0xBF20FC00, 0x19200800, "n m d", "m"),
    Row("RCWCASP", 0xBF20FC00, 0x19200C00, "n m m+1 d d+1", "m m+1"),
    Row("STLUR", 0x3FE00C00, 0x19000000, "n d"),
    Row("LDAPUR", 0x3F200C00, 0x19000000, "n", "d"),
    Row("LDR Xt, label", 0xFF000000, 0x58000000, "", "d"),
    Row("PRFM label", 0xFF000000, 0xD8000000),
    Row("LDR label", 0x3F000000, 0x18000000, "", "d"),
    Row("STP", 0x3EC00000, 0x28000000, "n d a"),
    Row("STP, base written back", 0x3E400000, 0x28000000, "n d a", "n"),
    Row("LDP", 0x3EC00000, 0x28400000, "n", "d a"),
    Row("LDP, base written back", 0x3E400000, 0x28400000, "n", "d a n"),
    Row("ST64B", 0xFFFFFC00, 0xF83F9000, "n d d+7"),
    Row("ST64BV, ST64BV0", 0xFFE0EC00, 0xF820A000, "n d d+7", "m"),
    Row("LD64B", 0xFFFFFC00, 0xF83FD000, "n", "d d+7"),
    Row("LDAPR", 0x3F20FC00, 0x3820C000, "n", "d"),
    Row("LDADD, SWP", 0x3F200C00, 0x38200000, "n m", "d"),
    Row("LDRAA, LDRAB", 0xFF200C00, 0xF8200400, "n", "d"),
    Row("LDRAA, LDRAB, base written back", 0xFF200C00, 0xF8200C00, "n", "d n"),
    Row("PRFM (immediate)", 0xFFC00000, 0xF9800000, "n"),
    Row("PRFUM", 0xFFE00C00, 0xF8800000, "n"),
    Row("PRFM (register)", 0xFFE00C00, 0xF8A00800, "n m"),
    Row("STR (immediate)", 0x3FC00000, 0x39000000, "n d"),
    Row("LDR (immediate)", 0x3F000000, 0x39000000, "n", "d"),
    Row("STUR, STTR", 0x3FE00400, 0x38000000, "n d"),
    Row("STR, base written back", 0x3FE00400, 0x38000400, "n d", "n"),
    Row("LDUR, LDTR", 0x3F200400, 0x38000000, "n", "d"),
    Row("LDR, base written back", 0x3F200400, 0x38000400, "n", "d n"),
    Row("STR (register)", 0x3FE00C00, 0x38200800, "n d m"),
    Row("LDR (register)", 0x3F200C00, 0x38200800, "n m", "d"),
    Row("LDR (vector) label", 0x3F000000, 0x1C000000),
    Row("STP, LDP (vector), base written back", 0x3E800000, 0x2C800000, "n", "n"),
    Row("STR, LDR (vector), base written back", 0x3F200400, 0x3C000400, "n", "n"),
    Row("STR, LDR (vector, register)", 0x3F200C00, 0x3C200800, "n m"),
    Row("ST1, LD1, base written back", 0xBE800000, 0x0C800000, "n m", "n"),
    Row("LDR, STP, LD1, LDFADD (vector)", 0x0E000000, 0x0C000000, "n"),
    Row(UNALLOCATED, 0x0A000000, 0x08000000, "d n a m", "?"),
    # Data processing, register
    Row("RMIF", 0xFFE07C10, 0xBA000400, "n"),
    Row("SETF", 0xFFFFBC1F, 0x3A00080D, "n"),
    Row("CCMP, CCMN (immediate)", 0x1FE00800, 0x1A400800, "n"),
    Row("CCMP, CCMN (register)", 0x1FE00800, 0x1A400000, "n m"),
    Row("PACIA171615, AUTIA171615", 0xFFFFCBFF, 0xDAC18BFE, "x15 x16 x17", "x17"),
    Row("PACIASPPC", 0xFFFF8000, 0xDAC18000, "n x30", "x30"),
    Row("PACIA, AUTIA, XPACI", 0xFFFF8000, 0xDAC10000, "d n", "d"),
    Row("SMULH, UMULH", 0x1F600000, 0x1B400000, "n m", "d"),
    Row("MADD", 0x1F000000, 0x1B000000, "n m a", "d"),
    Row("CLZ, REV", 0x5FE00000, 0x5AC00000, "n", "d"),
    Row("ADD, AND, CSEL, UDIV (register)", 0x0E000000, 0x0A000000, "n m", "d"),
    # Vectors and floating point
    Row("SCVTF, UCVTF (from general)", 0x5F3EFC00, 0x1E220000, "n"),
    Row("FMOV (from general)", 0x5F37FC00, 0x1E270000, "n"),
    Row("FCVT, FMOV (to general)", 0x5F20FC00, 0x1E200000, "", "d"),
    Row("SCVTF, UCVTF (fixed point)", 0x5F3E0000, 0x1E020000, "n"),
    Row("FCVTZS, FCVTZU (fixed point)", 0x5F3E0000, 0x1E180000, "", "d"),
    Row("DUP (general)", 0xBFE0FC00, 0x0E000C00, "n"),
    Row("INS (general)", 0xFFE0FC00, 0x4E001C00, "n"),
    Row("SMOV, UMOV", 0xBFE0EC00, 0x0E002C00, "", "d"),
    Row("vectors", 0x0E000000, 0x0E000000),
    Row(UNALLOCATED, 0, 0, "", "?"),
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
def _candidates(top: int) -> tuple[Row, ...]:
    """Return the rows that may match words with these bits 31:21, in order."""
    return tuple(row for row in ROWS if (row.value ^ top << 21) & row.mask >> 21 << 21 == 0)


def row_of(word: int) -> Row:
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
