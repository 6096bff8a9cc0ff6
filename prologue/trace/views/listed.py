"""Distinct ranges with their instructions, many at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from prologue.arrays import I64, U64
from prologue.live.system.programs import Program
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.listing import Disassembler, Insn, place_text


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
        for own in self.programs(numbers):
            places = own.program.places(table["start"][own.rows])
            stops = np.cumsum(own.counts)
            spans = zip((stops - own.counts).tolist(), stops.tolist(), strict=True)
            for row, (name, offset), (first, stop) in zip(own.rows.tolist(), places, spans, strict=True):
                insns = own.insns[first:stop]
                listed[row] = replace(listed[row], program=own.program, name=name, offset=offset, insns=insns)
        return listed
