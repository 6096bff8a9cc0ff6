"""Disassembly and register effects, by capstone, which is loaded at first use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final


@cache
def engine(*, detail: bool) -> Any:
    """Capstone for A64; ``detail`` has it say which registers are read and written, which takes time."""
    import capstone

    made = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM | capstone.CS_MODE_LITTLE_ENDIAN)
    made.detail = detail
    return made


def insn_text(word: int, vaddr: int = 0) -> str:
    """One instruction in assembly, or ``.word 0x...`` if it is none."""
    for insn in engine(detail=True).disasm(word.to_bytes(4, "little"), vaddr):
        return f"{insn.mnemonic} {insn.op_str}".strip()
    return f".word {word:#010x}"


def disassemble(code: bytes, vaddr: int) -> str:
    """Lines of ``address: word  instruction``; a tail of less than 4 bytes is dropped."""
    words = [int.from_bytes(code[k : k + 4], "little") for k in range(0, len(code) - 3, 4)]
    return "\n".join(f"{vaddr + 4 * k:#x}: {w:08x}  {insn_text(w, vaddr + 4 * k)}" for k, w in enumerate(words))


def _numbers(names: Iterable[str]) -> frozenset[int]:
    """Numbers of the general registers among capstone's names (x29 and x30 have names of their own)."""
    special = {"fp": 29, "lr": 30}
    return frozenset(
        special[name] if name in special else int(name[1:])
        for name in names
        if name in special or (name[0] in "xw" and name[1:].isdigit())
    )


@cache
def register_use(word: int) -> tuple[frozenset[int], frozenset[int]]:
    """Numbers of the general registers (X or W) that an instruction reads and writes; none for data."""
    for insn in engine(detail=True).disasm(word.to_bytes(4, "little"), 0):
        read, written = insn.regs_access()
        return _numbers(map(insn.reg_name, read)), _numbers(map(insn.reg_name, written))
    return frozenset(), frozenset()


def registers_written(word: int) -> frozenset[int]:
    """Numbers of the general registers that an instruction writes."""
    return register_use(word)[1]


# (mask, value): instructions that write one general register, named by bits 4:0, or none. Function epilogues
# consist of these, and with this table the build step does not load capstone.
_WRITES_BITS_4_0: Final = (
    (0xFFF00000, 0xD5300000),  # MRS
    (0xFFC00000, 0xF9400000),  # LDR Xt, [Xn, #imm]
    (0x1F000000, 0x11000000),  # ADD, ADDS, SUB, SUBS (immediate)
    (0x1F200000, 0x0B000000),  # ADD, ADDS, SUB, SUBS (shifted register)
    (0x7F800000, 0x52800000),  # MOVZ
    (0xFFFFF01F, 0xD503201F),  # hints: NOP, AUTIASP
    (0xFE000000, 0x54000000),  # B.cond
    (0xFC000000, 0x14000000),  # B
    (0xFFFFFFFF, 0xD65F03C0),  # RET
)
_LDP_OFFSET: Final = (0xFFC00000, 0xA9400000)  # LDP Xt, Xt2, [Xn, #imm]


def may_write_x0(word: int, vaddr: int) -> bool:
    """Whether the instruction writes X0 or W0; an unknown instruction counts as writing."""
    if word & _LDP_OFFSET[0] == _LDP_OFFSET[1]:
        return not (word & 0x1F and word >> 10 & 0x1F)
    for mask, value in _WRITES_BITS_4_0:
        if word & mask == value:
            writes_none = mask in (0xFE000000, 0xFC000000, 0xFFFFFFFF)
            return not (word & 0x1F or writes_none)
    for insn in engine(detail=True).disasm(word.to_bytes(4, "little"), vaddr):
        _, written = insn.regs_access()
        return any(insn.reg_name(reg) in ("x0", "w0") for reg in written)
    return True
