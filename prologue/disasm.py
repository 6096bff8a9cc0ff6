"""Disassembly and register effects, by capstone; loaded only when somebody needs to read instructions."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _engine() -> Any:
    import capstone

    engine = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM | capstone.CS_MODE_LITTLE_ENDIAN)
    engine.detail = True
    return engine


def insn_text(word: int, vaddr: int = 0) -> str:
    """One instruction in assembly, or ``.word 0x...`` if it is none."""
    for insn in _engine().disasm(word.to_bytes(4, "little"), vaddr):
        return f"{insn.mnemonic} {insn.op_str}".strip()
    return f".word {word:#010x}"


def disassemble(code: bytes, vaddr: int) -> str:
    """Lines of ``address: word  instruction``; a tail of less than 4 bytes is dropped."""
    words = [int.from_bytes(code[k : k + 4], "little") for k in range(0, len(code) - 3, 4)]
    return "\n".join(f"{vaddr + 4 * k:#x}: {w:08x}  {insn_text(w, vaddr + 4 * k)}" for k, w in enumerate(words))


def writes_register(word: int, vaddr: int, register: str) -> bool:
    """Whether the instruction writes the X register or its W half; an unknown instruction counts as writing."""
    names = {register, "w" + register[1:]}
    for insn in _engine().disasm(word.to_bytes(4, "little"), vaddr):
        _, written = insn.regs_access()
        return any(insn.reg_name(reg) in names for reg in written)
    return True
