"""Instructions as objdump prints them: address, word, mnemonic, and where branches go by symbol. One decode a range."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from prologue.arrays import U32
from prologue.insn.disasm import engine
from prologue.trace.path.programs import Program

_BY_ADDRESS: Final = frozenset({"b", "bl", "cbz", "cbnz", "tbz", "tbnz", "adr", "adrp", "ldr", "ldrsw", "prfm"})
_TARGET: Final = re.compile(r"(^|, )#0x([0-9a-f]+)$")


class Insn(NamedTuple):
    """One instruction: address, word, and its text; ``.inst`` where there is none of that encoding."""

    vaddr: int
    word: int
    mnemonic: str
    operands: str

    @property
    def text(self) -> str:
        """Mnemonic and operands."""
        return f"{self.mnemonic} {self.operands}".rstrip()


def instructions(program: Program, start: int, words: U32) -> list[Insn]:
    """The instructions of a range of a program with these words."""
    code, values = words.tobytes(), words.tolist()
    found: list[Insn] = []
    at = 0
    while at < len(values):
        for vaddr, _, mnemonic, operands in engine(detail=False).disasm_lite(code[4 * at :], start + 4 * at):
            found.append(Insn(vaddr, values[at], mnemonic, _named(program, mnemonic, operands)))
            at += 1
        if at < len(values):
            found.append(Insn(start + 4 * at, values[at], ".inst", f"{values[at]:#010x} ; undefined"))
            at += 1
    return found


def _named(program: Program, mnemonic: str, operands: str) -> str:
    """Operands with an address by symbol, as objdump has it: ``ffff800080010000 <sym+0x10>``."""
    if mnemonic not in _BY_ADDRESS and not mnemonic.startswith("b."):
        return operands
    found = _TARGET.search(operands)
    if found is None:
        return operands
    vaddr = int(found[2], 16)
    return f"{operands[: found.start()]}{found[1]}{vaddr:x}{bracketed(program, vaddr)}"


def bracketed(program: Program, vaddr: int) -> str:
    """`` <sym+0x10>``, or nothing where no symbol is."""
    name, offset = program.place(vaddr)
    if not name:
        return ""
    return f" <{name}+{offset:#x}>" if offset else f" <{name}>"


def plain_place(program: Program, vaddr: int) -> str:
    """``sym+0x10``; the address where no symbol is."""
    name, offset = program.place(vaddr)
    return (f"{name}+{offset:#x}" if offset else name) if name else f"{vaddr:#x}"


def objdump_lines(program: Program, start: int, words: U32) -> str:
    """The lines of a range that ``objdump -d --start-address --stop-address`` prints, each after a tab."""
    heads = {start, *program.starts_within(start, start + 4 * len(words))}
    lines = []
    for insn in instructions(program, start, words):
        if insn.vaddr in heads:
            name = bracketed(program, insn.vaddr)
            lines.append(f"\t{insn.vaddr:016x}{name or ' <.text>'}:\n")
        text = f"{insn.mnemonic}\t{insn.operands}" if insn.operands else insn.mnemonic
        lines.append(f"\t{insn.vaddr:16x}:\t{insn.word:08x} \t{text}\n")
    return "".join(lines)
