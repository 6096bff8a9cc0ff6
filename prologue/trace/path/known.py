"""Distinct ranges: each is met millions of times and judged once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64
from prologue.errors import InternalError
from prologue.trace.path.assign import Kernels
from prologue.trace.path.history import NO_TEXT, TextHistory
from prologue.trace.ranges import Batch
from prologue.trace.readers.intern import Interner, mix_rows
from prologue.trace.readers.sources import Trace

KNOWN: Final = np.dtype([("start", "<u8"), ("end", "<u8"), ("program", "<i4"), ("piece", "<i4"), ("text", "<i8")])
"""A distinct range: its program's row, or ``USER``, ``UNDECIDED`` or ``WORLD``; its piece of text, -1 if in none.

``text`` is the number of its text if that changed (``history``), otherwise ``NO_TEXT``.
"""
_AT_ONCE: Final = 1 << 13
"""Ranges whose values are made together; each has some kilobytes of instructions while it is made."""
Value = TypeVar("Value")


class KnownRanges:
    """The distinct ranges of a trace, each with a number and its words."""

    def __init__(self, kernels: Kernels, history: TextHistory | None = None) -> None:
        """Start without ranges; ``history`` is of the host's text."""
        self.kernels = kernels
        self._programs = kernels.programs
        self._history = history
        self._interner = Interner()
        self.table: npt.NDArray[Any] = np.zeros(0, KNOWN)

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
            yield batch, self._numbers(batch, program, texts)
        self._history.close(trace.account)

    def numbers(self, batch: Batch) -> I64:
        """Return the row in ``table`` of each range of a batch, by the words of the images; shape (n,)."""
        return self._numbers(batch, self.kernels.rows(batch), None)

    def parts(self, number: int, starts: list[int], ends: list[int]) -> I64:
        """Return the rows in ``table`` of the parts of a range, which keep the range's text where text changes."""
        start, end, program, _, text = self.table[number].tolist()
        texts = None
        if self._history is not None:
            texts = np.full(len(starts), NO_TEXT, np.int64)
            if text != NO_TEXT:
                texts[:] = [self._history.part(start, end, text, *part) for part in zip(starts, ends, strict=True)]
        bounds = np.array([starts, ends], np.uint64)
        return self._intern(bounds[0], bounds[1], np.full(len(starts), program, np.int64), texts)

    def words(self, number: int) -> U32:
        """Return the words of a range that is in an image."""
        start, end, program, piece, text = self.table[number].tolist()
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
            own = (table["program"] == row) & (table["piece"] >= 0)
            words[own] = program.words_at(table["end"][own] - np.uint64(4))[0]
        for k in np.flatnonzero(table["text"] != NO_TEXT).tolist():
            words[k] = self.words(int(numbers[k]))[-1]
        return words

    def _numbers(self, batch: Batch, program: I64, texts: I64 | None) -> I64:
        return self._intern(batch.ranges["start"], batch.ranges["end"], program, texts)

    def _intern(self, starts: U64, ends: U64, program: I64, texts: I64 | None) -> I64:
        columns = [starts, ends, program.view(np.uint64)]
        keys = mix_rows(*columns) if texts is None else mix_rows(*columns, texts.view(np.uint64))
        numbers, fresh = self._interner.numbers(keys)
        if len(fresh):
            new = np.zeros(len(fresh), KNOWN)
            new["start"], new["end"], new["program"] = starts[fresh], ends[fresh], program[fresh]
            new["piece"], new["text"] = -1, NO_TEXT if texts is None else texts[fresh]
            for row, own in enumerate(self._programs):
                rows = new["program"] == row
                new["piece"][rows] = own.piece_of(new["start"][rows], new["end"][rows])
            self.table = np.concatenate([self.table, new])
        same = self.table[numbers]
        alike = (same["start"] == starts) & (same["end"] == ends) & (same["program"] == program)
        if not alike.all() or (texts is not None and (same["text"] != texts).any()):
            raise InternalError("two ranges have one key")
        return numbers


class PerRange(Generic[Value]):
    """A value for each distinct range, made when it is first wanted, for many at once."""

    def __init__(self, make: Callable[[I64], Iterable[Value]]) -> None:
        """Start without values; ``make`` returns those of ranges by number."""
        self._make = make
        self._have: npt.NDArray[np.object_] = np.empty(0, object)

    def up_to(self, count: int) -> npt.NDArray[np.object_]:
        """Return the values of the first ``count`` ranges."""
        have = len(self._have)
        if have < count:
            new = np.empty(count - have, object)
            for first in range(have, count, _AT_ONCE):
                numbers = np.arange(first, min(first + _AT_ONCE, count))
                for number, value in zip(numbers.tolist(), self._make(numbers), strict=True):
                    new[number - have] = value
            self._have = np.concatenate([self._have, new])
        return self._have
