"""Is this image the code that ran? Every distinct range and every distinct step of a trace is judged.

The instructions inside of a range were executed one after the other, so none of them is an unconditional branch. Its
last one led to where the next range begins: a branch there, or an exception, which enters at a vector, or nothing but
the next instruction. What an image has otherwise is stale. Words that do not direct the flow (NOP or MOV, say) leave no
mark in a trace, and nothing is said of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.insn.disasm import insn_text
from prologue.trace.branching import (
    BL,
    CONDITIONAL,
    TRAP,
    UNDEFINED,
    B,
    classes,
    never_goes_on,
    targets,
)
from prologue.trace.flow import may_be_exceptions, possible_steps
from prologue.trace.form import Batch
from prologue.trace.history import NO_TEXT
from prologue.trace.intern import RunCounts
from prologue.trace.known import KnownRanges
from prologue.trace.listing import plain_place
from prologue.trace.steps import Steps
from prologue.words import counted

_NOT_TAKEN: Final = 0
"""Instead of an address where execution went: to the next instruction."""


@dataclass(slots=True, kw_only=True)
class StaleWord:
    """A word of an image that cannot have been executed as it is.

    ``went`` are addresses where execution went on after it, with counts; 0 is the next instruction. ``time`` (ns) and
    ``cpu`` are of the first of these steps that is known; ``cpu`` is -1 if none is.
    """

    program: int
    vaddr: int
    word: int
    went: Counter[int]
    time: int = 0
    cpu: int = -1

    @property
    def count(self) -> int:
        """How often it was executed as something else."""
        return self.went.total()


class ImageCheck:
    """Judges a trace, batch by batch."""

    def __init__(self, known: KnownRanges, *, says_exceptions: bool) -> None:
        """``says_exceptions``: the input marks them, so a step without a mark is none."""
        self._known = known
        self._says_exceptions = says_exceptions
        self._programs = known.kernels.programs
        self._runs = RunCounts()
        self.steps = Steps()
        self.unjudged: Counter[str] = Counter()
        self.judged = 0

    def add(self, batch: Batch, numbers: I64) -> None:
        """Take in a batch."""
        self.steps.take(batch.ranges, numbers)
        self._runs.add(numbers)

    def stale(self) -> list[StaleWord]:
        """Every word that is stale, by program and address; fills ``judged`` and ``unjudged``."""
        found: dict[tuple[int, int, int], StaleWord] = {}
        self._inside(found)
        self._between(found)
        return [found[key] for key in sorted(found)]

    # inside of ranges

    def _inside(self, found: dict[tuple[int, int, int], StaleWord]) -> None:
        table = self._known.table
        runs = self._runs.upto(len(table))
        for row, program in enumerate(self._programs):
            mine = np.flatnonzero((table["program"] == row) & (table["piece"] >= 0) & (runs > 0))
            places, owner = _inner_places(table["start"][mine], table["end"][mine])
            words, _ = program.words_at(places)
            for k in np.flatnonzero(table["text"][mine] != NO_TEXT).tolist():
                own = self._known.words(int(mine[k]))[:-1]
                words[int(np.searchsorted(owner, k)) :][: len(own)] = own
            bad = np.flatnonzero(never_goes_on(words, places))
            for k in bad.tolist():
                stale = _stale(found, row, int(places[k]), int(words[k]))
                stale.went[_NOT_TAKEN] += int(runs[mine[owner[k]]])

    # between ranges

    def _between(self, found: dict[tuple[int, int, int], StaleWord]) -> None:
        steps, counts, table = self.steps.table, self.steps.counts, self._known.table
        before, after = table[steps["before"]], table[steps["after"]]
        last = before["end"] - np.uint64(4)
        words = self._known.last_words(steps["before"])
        judged = before["piece"] >= 0
        self._leave_out(~judged, "steps from code that is in no image")
        vectors = np.concatenate([program.vectors for program in self._programs])
        wrong = judged & ~possible_steps(words, last, after["start"], steps["flags"], vectors)
        nowhere = after["piece"] < 0
        maybe = wrong & may_be_exceptions(words, after["start"], nowhere, says_exceptions=self._says_exceptions)
        self._leave_out(maybe, "steps to code that is in no image, which may be exceptions")
        self.judged = int(counts[judged & ~maybe].sum())
        for k in np.flatnonzero(wrong & ~maybe).tolist():
            went = int(after["start"][k])
            went = _NOT_TAKEN if went == int(last[k]) + 4 else went
            stale = _stale(found, int(before["program"][k]), int(last[k]), int(words[k]))
            stale.went[went] += int(counts[k])
            if stale.cpu < 0 or int(steps["time"][k]) < stale.time:
                stale.time, stale.cpu = int(steps["time"][k]), int(steps["cpu"][k])

    def _leave_out(self, which: Bool, why: str) -> None:
        count = int(self.steps.counts[which].sum())
        if count:
            self.unjudged[why] += count

    def describe(self, stale: StaleWord) -> str:
        """What is wrong with a word, in one sentence."""
        program = self._programs[stale.program]
        (went, _), *others = stale.went.most_common()
        kind = int(classes(np.array([stale.word], np.uint32))[0])
        if kind in (B, BL, CONDITIONAL):
            target = int(targets(np.array([stale.word], np.uint32), np.array([stale.vaddr], np.uint64))[0])
            mnemonic = insn_text(stale.word, stale.vaddr).partition("#")[0].strip()
            said = f"{mnemonic} {plain_place(program, target)}"
        else:
            said = insn_text(stale.word, stale.vaddr)
        if went == _NOT_TAKEN:
            why = "did not trap" if kind in (TRAP, UNDEFINED) else "was not taken"
        elif kind in (B, BL, CONDITIONAL):
            why = f"is not what ran: execution went on at {plain_place(program, went)}"
        else:
            why = f"is not a branch, but execution went on at {plain_place(program, went)}"
        return f"{said} {why}" + (f" and {counted(len(others), 'other place')}" if others else "")


def _stale(found: dict[tuple[int, int, int], StaleWord], program: int, vaddr: int, word: int) -> StaleWord:
    return found.setdefault((program, vaddr, word), StaleWord(program=program, vaddr=vaddr, word=word, went=Counter()))


def _inner_places(starts: U64, ends: U64) -> tuple[U64, I64]:
    """Addresses of all instructions of ranges but their last ones, and the row of the range of each."""
    sizes = ((ends - starts) >> np.uint64(2)).astype(np.int64) - 1
    owner = np.repeat(np.arange(len(starts)), sizes)
    first = np.cumsum(sizes) - sizes
    within = np.arange(len(owner)) - first[owner]
    return starts[owner] + within.astype(np.uint64) * np.uint64(4), owner
