"""Disassembly and register effects, by capstone, which is loaded at first use."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any


@cache
def engine(*, detail: bool) -> Any:
    """Load capstone for A64; ``detail`` has it say which registers are read and written, which takes time."""
    import capstone

    made = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM | capstone.CS_MODE_LITTLE_ENDIAN)
    made.detail = detail
    return made


def insn_text(word: int, vaddr: int = 0) -> str:
    """Disassemble one instruction; ``.word 0x...`` if it is none."""
    for insn in engine(detail=True).disasm(word.to_bytes(4, "little"), vaddr):
        return f"{insn.mnemonic} {insn.op_str}".strip()
    return f".word {word:#010x}"


def disassemble(code: bytes, vaddr: int) -> str:
    """Make lines of ``address: word  instruction``; a tail of less than 4 bytes is dropped."""
    words = [int.from_bytes(code[k : k + 4], "little") for k in range(0, len(code) - 3, 4)]
    return "\n".join(f"{vaddr + 4 * k:#x}: {w:08x}  {insn_text(w, vaddr + 4 * k)}" for k, w in enumerate(words))


def _numbers(names: Iterable[str]) -> frozenset[int]:
    """Return the numbers of the general registers among capstone's names (x29 and x30 have names of their own)."""
    special = {"fp": 29, "lr": 30}
    return frozenset(
        special[name] if name in special else int(name[1:])
        for name in names
        if name in special or (name[0] in "xw" and name[1:].isdigit())
    )


@cache
def register_use(word: int) -> tuple[frozenset[int], frozenset[int]]:
    """Return the numbers of the general registers (X or W) that an instruction reads and writes; none for data."""
    for insn in engine(detail=True).disasm(word.to_bytes(4, "little"), 0):
        read, written = insn.regs_access()
        return _numbers(map(insn.reg_name, read)), _numbers(map(insn.reg_name, written))
    return frozenset(), frozenset()
