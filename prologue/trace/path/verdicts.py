"""Verdicts on each distinct range and each distinct step of a trace: judged once, in arrays by its number.

The instructions inside of a range were executed one after the other, so no unconditional branch is among them. Its
last instruction led to the start of the next range: by a branch, by an exception, which enters at a vector, or because
that is the next instruction.

A conditional branch inside of a range was not taken. perf's text has such ranges, and OpenCSD's of an ETE with source
addresses has, too, so such a branch is no evidence.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64, Bool
from prologue.insn import decode
from prologue.insn.rows import flows
from prologue.trace.path.branching import (
    ANYWHERE,
    CONDITIONAL,
    DIRECT,
    NEVER_ONWARD,
    find_never_goes_on,
    may_be_exceptions,
    never_goes_on,
    possible_steps,
    targets,
)
from prologue.trace.path.history import NO_TEXT
from prologue.trace.path.known import KnownRanges, PerNumber
from prologue.trace.path.steps import STEP
from prologue.trace.ranges import RETURN
from prologue.trace.readers.decoders import Decoder
from prologue.trace.readers.intern import DistinctRows

POSSIBLE, IMPOSSIBLE, UNJUDGED = range(3)


class RangeVerdicts:
    """The verdict on each distinct range, and where it may lead; every array has a row for each range."""

    def __init__(self, known: KnownRanges, decoder: Decoder | None) -> None:
        self._known = known
        self._programs = known.kernels.programs
        self._decoder = decoder
        self._pieces = cache(self._of_piece)
        self.broken: Bool = np.zeros(0, np.bool_)  # it runs through a stop: a word that never goes on
        self.judged: Bool = np.zeros(0, np.bool_)  # it is in an image
        self.free: Bool = np.zeros(0, np.bool_)  # its last instruction may lead anywhere
        self.target: U64 = np.zeros(0, np.uint64)  # otherwise it leads to this address,
        self.onward: U64 = np.zeros(0, np.uint64)  # or to this address
        self.ignored: Bool = np.zeros(0, np.bool_)  # it has a conditional branch that the decoder may not know

    def learn(self) -> None:
        """Judge new ranges."""
        table, have = self._known.table, len(self.broken)
        if have == len(table):
            return
        fresh = np.arange(have, len(table))
        new, words = table[fresh], self._known.last_words(fresh)
        last, kind = new["end"] - np.uint64(4), flows(words)
        target = np.where(np.isin(kind, DIRECT), targets(words, last), new["end"])
        self.judged = np.concatenate([self.judged, new["piece"] >= 0])
        self.free = np.concatenate([self.free, np.isin(kind, ANYWHERE)])
        self.target = np.concatenate([self.target, target])
        self.onward = np.concatenate([self.onward, np.where(np.isin(kind, NEVER_ONWARD), target, new["end"])])
        broken, ignored = self._inside(fresh)
        self.broken = np.concatenate([self.broken, broken])
        self.ignored = np.concatenate([self.ignored, ignored])

    def stops(self, number: int) -> list[tuple[int, int]]:
        """Return address and word of every stop in a range, except its end."""
        start, end, _program, _text, piece = self._known.table[number].tolist()
        if piece < 0:
            return []
        words = self._known.words(number)[:-1]
        places = np.arange(start, end - 4, 4, dtype=np.uint64)
        bad = never_goes_on(words, places)
        return list(zip(places[bad].tolist(), words[bad].tolist(), strict=True))

    def _inside(self, fresh: I64) -> tuple[Bool, Bool]:
        """Return which of new ranges are broken, and which have a branch that the decoder may not know."""
        new = self._known.table[fresh]
        broken, ignored = np.zeros(len(new), np.bool_), np.zeros(len(new), np.bool_)
        changed = new["text"] != NO_TEXT
        plain = np.flatnonzero((new["piece"] >= 0) & ~changed)
        pieces = new["program"][plain].astype(np.int64) << 32 | new["piece"][plain]
        for key in np.unique(pieces).tolist():
            rows = plain[pieces == key]
            stops, branches = self._pieces(key >> 32, key & 0xFFFFFFFF)
            starts, lasts = new["start"][rows], new["end"][rows] - np.uint64(4)
            first = np.searchsorted(stops, starts)
            has_stop = first < np.searchsorted(stops, lasts)
            broken[rows] = has_stop
            lasts[has_stop] = stops[first[has_stop]]  # the decoder did not follow the text after the first stop
            ignored[rows] = np.searchsorted(branches, starts) < np.searchsorted(branches, lasts)
        for row in np.flatnonzero(changed & (new["piece"] >= 0)).tolist():
            number, start = int(fresh[row]), int(new["start"][row])
            row_stops, words = self.stops(number), self._known.words(number)[:-1]
            broken[row] = bool(row_stops)
            ignored[row] = len(self._ignorable(words[: (row_stops[0][0] - start) // 4] if row_stops else words)) > 0
        return broken, ignored

    def _ignorable(self, words: U32) -> I64:
        """Return indices of conditional branches that the decoder may not know."""
        if self._decoder is None:
            return np.zeros(0, np.int64)
        candidates = np.flatnonzero(decode.matches(words, decode.CONTROL))
        candidates = candidates[self._decoder.may_ignore(words[candidates])]
        chosen: I64 = candidates[flows(words[candidates]) == CONDITIONAL]
        return chosen

    def _of_piece(self, program: int, piece: int) -> tuple[U64, U64]:
        """Return addresses in a piece of text: stops, and other branches that the decoder may not know."""
        text = self._programs[program].pieces[piece]
        stops, branches = find_never_goes_on(text.words, text.addr), self._ignorable(text.words)
        base, size = np.uint64(text.addr), np.uint64(4)
        return base + stops.astype(np.uint64) * size, base + branches.astype(np.uint64) * size


class StepVerdicts:
    """The verdict on each distinct step that is not plain, by its number."""

    def __init__(self, known: KnownRanges, *, says_exceptions: bool) -> None:
        """Start without steps. ``says_exceptions``: the input marks them, so a step without a mark is no exception."""
        self._known = known
        self._says_exceptions = says_exceptions
        self._vectors = np.concatenate([program.vectors for program in known.kernels.programs])
        self.steps = DistinctRows(STEP)
        self._verdicts = PerNumber(self._judge, np.uint8)

    def numbers(self, before: I64, after: I64, flags: npt.NDArray[np.uint8]) -> tuple[I64, npt.NDArray[np.uint8]]:
        """Return the row in ``steps`` of each step, and the verdict on it."""
        numbers = self.steps.numbers(before, after, flags)
        return numbers, self._verdicts.up_to(len(self.steps.table))[numbers]

    def _judge(self, numbers: I64) -> npt.NDArray[np.uint8]:
        table, steps = self._known.table, self.steps.table[numbers]
        before, after = table[steps["before"]], table[steps["after"]]
        last, words = before["end"] - np.uint64(4), self._known.last_words(steps["before"])
        possible = possible_steps(words, last, after["start"], steps["flags"], self._vectors)
        nowhere: Bool = after["piece"] < 0
        maybe = may_be_exceptions(words, after["start"], nowhere, says_exceptions=self._says_exceptions)
        return np.where(possible, POSSIBLE, np.where(maybe, UNJUDGED, IMPOSSIBLE)).astype(np.uint8)

    def word(self, number: int) -> tuple[int, int, int, int]:
        """Return program, address and word that a step leads from, and the address that it leads to."""
        before, after, _ = self.steps.table[number].tolist()
        _, end, program, *_ = self._known.table[before].tolist()
        word = int(self._known.last_words(np.array([before]))[0])
        return program, end - 4, word, int(self._known.table["start"][after])


def is_plain(ranges: RangeVerdicts, before: I64, starts: U64, flags: npt.NDArray[np.uint8]) -> Bool:
    """Return which steps from judged ranges to addresses ``starts`` follow from their last instruction alone."""
    plain: Bool = ranges.free[before] | (ranges.target[before] == starts) | (ranges.onward[before] == starts)
    returned = flags & np.uint8(RETURN) != 0
    return plain & ~returned if returned.any() else plain
