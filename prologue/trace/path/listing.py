"""Instructions as objdump prints them, of many distinct ranges at once.

That is address, word, mnemonic, and targets of branches by symbol.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U32, U64
from prologue.insn.disasm import engine
from prologue.insn.table import row_of
from prologue.live.memory.ranges import TOP
from prologue.live.system.programs import Program
from prologue.trace.path.known import KnownRanges
from prologue.words import at_offset

_BASE: Final = 1 << 40
"""Where words are disassembled, once for all their addresses; far from 0, as capstone has small numbers in decimal."""
_PAGE: Final = -1 << 12
_ADDRESS: Final = re.compile(r"#0x([0-9a-f]+)$")


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


class _Form(NamedTuple):
    """The text of a word. If it ends with an address: how far that is from the instruction's, or from its page."""

    mnemonic: str
    operands: str
    distance: int | None = None
    base: int = -1  # a mask of the instruction's address


class Disassembler:
    """Disassembly of many instructions: capstone is asked once for each distinct word."""

    def __init__(self) -> None:
        self._forms: dict[int, _Form] = {}

    def instructions(self, program: Program, vaddrs: U64, words: U32) -> list[Insn]:
        """Disassemble words of a program at any addresses; both of shape (n,)."""
        values = words.tolist()
        self._learn(list(set(values).difference(self._forms)))
        forms, insns = self._forms, list[Insn]()
        relative: dict[int, int] = {}  # target of an instruction, by its row
        for vaddr, word in zip(vaddrs.tolist(), values, strict=True):
            mnemonic, operands, distance, base = forms[word]
            if distance is not None:
                relative[len(insns)] = (vaddr & base) + distance & TOP
            insns.append(Insn(vaddr, word, mnemonic, operands))
        names = bracketed_all(program, np.array(list(relative.values()), np.uint64))
        for (row, target), name in zip(relative.items(), names, strict=True):
            insn = insns[row]
            insns[row] = insn._replace(operands=f"{insn.operands}{target:x}{name}")
        return insns

    def _learn(self, words: list[int]) -> None:
        """Have capstone disassemble new words; those that it does not know are ``.inst``."""
        code, at = np.array(words, np.uint32).tobytes(), 0
        while at < len(words):
            for vaddr, _, mnemonic, operands in engine(detail=False).disasm_lite(code[4 * at :], _BASE + 4 * at):
                self._forms[words[at]] = _form(words[at], vaddr, mnemonic, operands)
                at += 1
            if at < len(words):
                self._forms[words[at]] = _Form(".inst", f"{words[at]:#010x} ; undefined")
                at += 1


def _form(word: int, vaddr: int, mnemonic: str, operands: str) -> _Form:
    """Take apart what capstone says of a word at an address."""
    row = row_of(word)
    is_relative = row.target is not None or row.name in ("ADR", "ADRP") or row.name.endswith(" label")
    target = _ADDRESS.search(operands) if is_relative else None
    if target is None:
        return _Form(mnemonic, operands)
    base = _PAGE if row.name == "ADRP" else -1
    return _Form(mnemonic, operands[: target.start()], int(target[1], 16) - (vaddr & base), base)


def instructions(program: Program, start: int, words: U32) -> list[Insn]:
    """Disassemble a range of a program that has these words."""
    vaddrs = np.uint64(start) + np.uint64(4) * np.arange(len(words), dtype=np.uint64)
    return Disassembler().instructions(program, vaddrs, words)


def bracketed_all(program: Program, vaddrs: U64) -> list[str]:
    """Return `` <sym+0x10>`` for each address, or nothing if no symbol is there."""
    return [f" <{at_offset(name, offset)}>" if name else "" for name, offset in program.places(vaddrs)]


def plain_place(program: Program, vaddr: int) -> str:
    """Return ``sym+0x10``, or the address if no symbol is there."""
    return place_text(*program.place(vaddr), vaddr)


def place_text(name: str, offset: int, vaddr: int) -> str:
    """Return ``sym+0x10``, or the address if there is no name."""
    return at_offset(name, offset) if name else f"{vaddr:#x}"


def objdump_lines(program: Program, vaddrs: U64, insns: list[Insn], counts: I64) -> Iterator[str]:
    """Yield the lines of each range as ``objdump -d --start-address --stop-address`` prints them, each after a tab.

    ``insns``, at ``vaddrs``, are of all ranges, ``counts`` for each.
    """
    is_head = program.place_starts(vaddrs) == vaddrs
    stops = np.cumsum(counts)
    is_head[(stops - counts)[counts > 0]] = True
    heads = np.flatnonzero(is_head)
    lines = [
        f"\t{vaddr:16x}:\t{word:08x} \t{mnemonic}\t{operands}\n"
        if operands
        else f"\t{vaddr:16x}:\t{word:08x} \t{mnemonic}\n"
        for vaddr, word, mnemonic, operands in insns
    ]
    for row, name in zip(heads.tolist(), bracketed_all(program, vaddrs[heads]), strict=True):
        lines[row] = f"\t{insns[row].vaddr:016x}{name or ' <.text>'}:\n{lines[row]}"
    first = 0
    for stop in stops.tolist():
        yield "".join(lines[first:stop])
        first = stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A range: its number and addresses, its instructions, and symbol and offset of the first of them.

    ``program`` is None if no image has it; then it has no instructions.
    """

    number: int
    start: int
    end: int
    program: Program | None = None
    name: str = ""
    offset: int = 0
    insns: tuple[Insn, ...] | list[Insn] = ()

    @property
    def head(self) -> str:
        """The place of the first instruction; of a range in no image both addresses."""
        if self.program is None:
            return f"{self.start:#x}..{self.end - 4:#x}"
        return place_text(self.name, self.offset, self.start)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedProgram:
    """Ranges of one program, all in its image: their rows among the ranges that were asked for, and their code.

    ``counts`` are the instructions of each range, all in ``insns`` at ``vaddrs``.
    """

    rows: I64
    program: Program
    vaddrs: U64
    insns: list[Insn]
    counts: I64


class Lister:
    """The instructions of distinct ranges."""

    def __init__(self, known: KnownRanges) -> None:
        """Start without any; ``known`` has the ranges and their words."""
        self._known = known
        self._disassembler = Disassembler()

    def programs(self, numbers: I64) -> Iterator[ListedProgram]:
        """Yield the ranges of each program that are in its image."""
        table = self._known.table[numbers]
        for row in np.unique(table["program"][table["piece"] >= 0]).tolist():
            rows = np.flatnonzero((table["program"] == row) & (table["piece"] >= 0))
            program = self._known.kernels.programs[row]
            vaddrs, words, counts = self._known.code(numbers[rows])
            insns = self._disassembler.instructions(program, vaddrs, words)
            yield ListedProgram(rows=rows, program=program, vaddrs=vaddrs, insns=insns, counts=counts)

    def ranges(self, numbers: I64) -> list[Listed]:
        """Return the ranges in the order of their numbers."""
        table = self._known.table[numbers]
        starts, ends = table["start"].tolist(), table["end"].tolist()
        listed = [
            Listed(number=number, start=start, end=end)
            for number, start, end in zip(numbers.tolist(), starts, ends, strict=True)
        ]
        for code in self.programs(numbers):
            places = code.program.places(table["start"][code.rows])
            stops = np.cumsum(code.counts)
            spans = zip((stops - code.counts).tolist(), stops.tolist(), strict=True)
            for row, (name, offset), (first, stop) in zip(code.rows.tolist(), places, spans, strict=True):
                insns = code.insns[first:stop]
                listed[row] = replace(listed[row], program=code.program, name=name, offset=offset, insns=insns)
        return listed
