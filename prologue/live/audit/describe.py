"""Descriptions of words of running text: instructions, and the targets of their branches."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from prologue.insn import a64
from prologue.insn.disasm import insn_text
from prologue.kernel.binary import Binary
from prologue.live.memory.state import KernelState

_FAR: Final = 1 << 20  # a symbol that begins further before an address is not the one it lies in


class Describer:
    """The describer of one file's instructions; ``state`` has the symbols that are no part of the file."""

    def __init__(self, binary: Binary, slide: int, state: KernelState | None) -> None:
        self._binary = binary
        self._slide = slide
        symbols = sorted((symbol.vaddr, symbol.name, symbol.owner) for symbol in state.symbols) if state else []
        self._places = [vaddr for vaddr, _, _ in symbols]
        self._symbols = symbols

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
            return f"{where.symbol}{_plus(where.symbol_offset)}"
        runs = vaddr + self._slide & (1 << 64) - 1
        at = bisect_right(self._places, runs) - 1
        if at >= 0 and runs - self._places[at] < _FAR:
            place, name, owner = self._symbols[at]
            return f"{name}{_plus(runs - place)}{f' of {owner}' if owner else ''}"
        return f"{runs:#x} in memory, outside of {self._binary.path.name}"


def _plus(offset: int) -> str:
    return f"+{offset:#x}" if offset else ""
