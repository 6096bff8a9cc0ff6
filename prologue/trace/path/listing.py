"""Instructions as objdump prints them: address, word, mnemonic, and targets of branches by symbol."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from prologue.arrays import U32
from prologue.insn.disasm import engine
from prologue.trace.path.programs import Program

_BY_ADDRESS: Final = frozenset({"b", "bl", "cbz", "cbnz", "tbz", "tbnz", "adr", "adrp", "ldr", "ldrsw", "prfm"})
_TARGET: Final = re.compile(r"(^|, )#0x([0-9a-f]+)$")


class Insn(NamedTuple):
    """An instruction: address, word, and its text; ``.inst`` if the word is no instruction."""

    vaddr: int
    word: int
    mnemonic: str
    operands: str

    @property
    def text(self) -> str:
        """Mnemonic and operands."""
        return f"{self.mnemonic} {self.operands}".rstrip()


def instructions(program: Program, start: int, words: U32) -> list[Insn]:
    """Disassemble a range of a program that has these words."""
    code, values = words.tobytes(), words.tolist()
    insns: list[Insn] = []
    at = 0
    while at < len(values):
        for vaddr, _, mnemonic, operands in engine(detail=False).disasm_lite(code[4 * at :], start + 4 * at):
            insns.append(Insn(vaddr, values[at], mnemonic, _name_target(program, mnemonic, operands)))
            at += 1
        if at < len(values):
            insns.append(Insn(start + 4 * at, values[at], ".inst", f"{values[at]:#010x} ; undefined"))
            at += 1
    return insns


def _name_target(program: Program, mnemonic: str, operands: str) -> str:
    """Put the symbol after an address among operands, as objdump does: ``ffff800080010000 <sym+0x10>``."""
    if mnemonic not in _BY_ADDRESS and not mnemonic.startswith("b."):
        return operands
    target = _TARGET.search(operands)
    if target is None:
        return operands
    vaddr = int(target[2], 16)
    return f"{operands[: target.start()]}{target[1]}{vaddr:x}{bracketed(program, vaddr)}"


def bracketed(program: Program, vaddr: int) -> str:
    """Return `` <sym+0x10>``, or nothing if no symbol is there."""
    name, offset = program.place(vaddr)
    if not name:
        return ""
    return f" <{name}+{offset:#x}>" if offset else f" <{name}>"


def plain_place(program: Program, vaddr: int) -> str:
    """Return ``sym+0x10``, or the address if no symbol is there."""
    name, offset = program.place(vaddr)
    return (f"{name}+{offset:#x}" if offset else name) if name else f"{vaddr:#x}"


def objdump_lines(program: Program, start: int, words: U32) -> str:
    """Return the lines of a range as ``objdump -d --start-address --stop-address`` prints them, each after a tab."""
    heads = {start, *program.starts_within(start, start + 4 * len(words))}
    lines = []
    for insn in instructions(program, start, words):
        if insn.vaddr in heads:
            name = bracketed(program, insn.vaddr)
            lines.append(f"\t{insn.vaddr:016x}{name or ' <.text>'}:\n")
        text = f"{insn.mnemonic}\t{insn.operands}" if insn.operands else insn.mnemonic
        lines.append(f"\t{insn.vaddr:16x}:\t{insn.word:08x} \t{text}\n")
    return "".join(lines)
