"""Descriptions of words of running text: instructions, and the targets of their branches."""

from __future__ import annotations

from prologue.insn import a64
from prologue.insn.disasm import insn_text
from prologue.kernel.binary import Binary
from prologue.live.memory.state import KernelState
from prologue.words import at_offset


class Describer:
    """The describer of one file's instructions; ``state`` has the symbols that are no part of the file."""

    def __init__(self, binary: Binary, slide: int, state: KernelState | None) -> None:
        self._binary = binary
        self._slide = slide
        self._state = state

    def insn(self, word: int, vaddr: int) -> str:
        """Describe an instruction at a link-time address, and its branch target."""
        text = f"`{insn_text(word, vaddr)}`"
        target = a64.branch_target(word, vaddr)
        if target is None or a64.classify(word) not in ("B", "BL"):
            return text
        name = self.name(target)
        return f"{text} ({name})" if name else text

    def name(self, vaddr: int) -> str:
        """Name a link-time address: symbol+offset of the file or of another owner's text, otherwise its address."""
        where = self._binary.symbols.locate(vaddr)
        if where.section is not None and where.symbol is not None:
            return at_offset(where.symbol, where.symbol_offset)
        runs = vaddr + self._slide & (1 << 64) - 1
        if self._state is not None and (owner := self._state.code_owner(runs)):
            named = ((s.vaddr, s.name) for s in self._state.symbols if s.owner == owner and s.vaddr <= runs)
            place, name = max(named, default=(0, ""))
            return f"{at_offset(name, runs - place)} of {owner}" if name else f"{runs:#x} of {owner}"
        return f"{runs:#x} in memory, outside of {self._binary.path.name}"
