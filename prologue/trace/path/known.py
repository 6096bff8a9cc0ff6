"""Distinct ranges: each is met millions of times and judged once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64
from prologue.trace.path.assign import Kernels
from prologue.trace.path.history import NO_TEXT, TextHistory
from prologue.trace.ranges import Batch
from prologue.trace.readers.intern import DistinctRows
from prologue.trace.readers.sources import Trace

KNOWN: Final = np.dtype([("start", "<u8"), ("end", "<u8"), ("program", "<i4"), ("text", "<i8"), ("piece", "<i4")])
"""A distinct range: its program's row, or ``USER``, ``UNDECIDED`` or ``WORLD``; its piece of text, -1 if in none.

``text`` is the number of its text if that changed (``history``), otherwise ``NO_TEXT``.
"""
_AT_ONCE: Final = 1 << 13
"""Ranges whose values are made together; each has some kilobytes of instructions while it is made."""


class KnownRanges:
    """The distinct ranges of a trace, each with a number and its words."""

    def __init__(self, kernels: Kernels, history: TextHistory | None = None) -> None:
        """Start without ranges; ``history`` is of the host's text."""
        self.kernels = kernels
        self._programs = kernels.programs
        self._history = history
        self._rows = DistinctRows(KNOWN)

    @property
    def table(self) -> npt.NDArray[Any]:
        """The distinct ranges, rows of ``KNOWN``."""
        return self._rows.table

    def numbered(self, trace: Trace) -> Iterator[tuple[Batch, I64]]:
        """Yield the batches of a trace, and the row in ``table`` of each range; new ranges are added at its end.

        Raises:
            InputError: the trace is damaged; or has no times, and there is a history.

        """
        if self._history is None:
            for batch in trace.batches:
                yield batch, self.numbers(batch)
            return
        from prologue.trace.path.instants import settled

        for batch, instants in settled(trace.batches):
            program = self.kernels.rows(batch)
            texts = self._history.texts(batch, instants, np.flatnonzero(program == 0), trace.account)
            yield batch, self._intern(batch.ranges["start"], batch.ranges["end"], program, texts)
        self._history.close(trace.account)

    def numbers(self, batch: Batch) -> I64:
        """Return the row in ``table`` of each range of a batch, by the words of the images; shape (n,)."""
        return self._intern(batch.ranges["start"], batch.ranges["end"], self.kernels.rows(batch))

    def parts(self, number: int, starts: list[int], ends: list[int]) -> I64:
        """Return the rows in ``table`` of the parts of a range, which keep the range's text where text changes."""
        start, end, program, text, _ = self.table[number].tolist()
        texts = None if self._history is None else np.full(len(starts), NO_TEXT, np.int64)
        if self._history is not None and texts is not None and text != NO_TEXT:
            texts[:] = [self._history.part(start, end, text, *part) for part in zip(starts, ends, strict=True)]
        bounds = np.array([starts, ends], np.uint64)
        return self._intern(bounds[0], bounds[1], np.full(len(starts), program, np.int64), texts)

    def words(self, number: int) -> U32:
        """Return the words of a range that is in an image."""
        start, end, program, text, piece = self.table[number].tolist()
        words: U32 = self._programs[program].words(start, end, piece)
        if text == NO_TEXT or self._history is None:
            return words
        return self._history.words(start, end, text, words)

    def code(self, numbers: I64) -> tuple[U64, U32, I64]:
        """Return address and word of each instruction of some ranges of one program, and each range's count of them.

        A range that is in no image has none.
        """
        table = self.table[numbers]
        counts = np.where(table["piece"] >= 0, (table["end"] - table["start"]) >> np.uint64(2), 0).astype(np.int64)
        firsts = np.cumsum(counts) - counts
        within = np.arange(counts.sum()) - np.repeat(firsts, counts)
        vaddrs = np.repeat(table["start"], counts) + np.uint64(4) * within.astype(np.uint64)
        if not len(vaddrs):
            return vaddrs, np.zeros(0, np.uint32), counts
        words = self._programs[table["program"][0]].words_at(vaddrs)[0]
        for row in np.flatnonzero(table["text"] != NO_TEXT).tolist():
            words[firsts[row] : firsts[row] + counts[row]] = self.words(int(numbers[row]))[: counts[row]]
        return vaddrs, words, counts

    def last_words(self, numbers: I64) -> U32:
        """Return the last word of each range, 0 for a range in no image; shape of ``numbers``."""
        table = self.table[numbers]
        words = np.zeros(len(numbers), np.uint32)
        for row, program in enumerate(self._programs):
            in_text = (table["program"] == row) & (table["piece"] >= 0)
            words[in_text] = program.words_at(table["end"][in_text] - np.uint64(4))[0]
        for k in np.flatnonzero(table["text"] != NO_TEXT).tolist():
            words[k] = self.words(int(numbers[k]))[-1]
        return words

    def _intern(self, starts: U64, ends: U64, programs: I64, texts: I64 | None = None) -> I64:
        have = len(self.table)
        numbers = self._rows.numbers(starts, ends, programs, *([] if texts is None else [texts]))
        new = self.table[have:]
        new["piece"] = -1
        if texts is None:
            new["text"] = NO_TEXT
        for row, program in enumerate(self._programs if len(new) else ()):
            rows = new["program"] == row
            new["piece"][rows] = program.piece_of(new["start"][rows], new["end"][rows])
        return numbers


class PerNumber:
    """A value for each distinct range or step, by its number, made when it is first wanted, for many at once."""

    def __init__(self, make: Callable[[I64], Sequence[Any] | npt.NDArray[Any]], dtype: npt.DTypeLike = object) -> None:
        """Start without values; ``make`` returns those of some numbers, which follow each other."""
        self._make = make
        self._have: npt.NDArray[Any] = np.empty(0, dtype)

    def up_to(self, count: int) -> npt.NDArray[Any]:
        """Return the values of the first ``count`` numbers."""
        have = len(self._have)
        if have < count:
            new = np.empty(count - have, self._have.dtype)
            for first in range(have, count, _AT_ONCE):
                numbers = np.arange(first, min(first + _AT_ONCE, count))
                new[numbers - have] = self._make(numbers)
            self._have = np.concatenate([self._have, new])
        return self._have
