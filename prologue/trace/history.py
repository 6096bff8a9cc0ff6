"""Text that changed while it was traced: recorded writes give each range the words of its instant.

A write and a range are of different CPUs and clocks, so near a write either word may have run. There the flow decides,
if the word directs it: the range must be able to run through, and to lead to where its CPU went on.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U32, U64, Bool
from prologue.errors import InputError
from prologue.trace.branching import never_goes_on
from prologue.trace.flow import may_be_exceptions, possible_steps
from prologue.trace.form import SAMPLE, Batch, Tally, shifted
from prologue.trace.instants import Instants
from prologue.trace.intern import Interner
from prologue.trace.programs import Program
from prologue.writes.form import Flag, Recording

NO_TEXT: Final = -1
"""Instead of a text's number: the range has no word that was ever written."""
_HALF: Final = 32  # bits of a row in a key of two


class _Span(NamedTuple):
    """What ranges over the same written addresses share.

    ``times`` of the writes to them; ``texts``, one more: which of ``words`` stands there after so many writes.
    ``addresses`` shape (n,), ``words`` shape (m, n): each distinct state; ``known``, its shape: false where only the
    image says what the word was.
    """

    times: U64
    texts: I64
    addresses: U64
    words: U32
    known: np.ndarray[tuple[int, int], np.dtype[np.bool_]]


class _Step(NamedTuple):
    """A range with one of its texts, and where its CPU went on from it (0: not known) with what flags."""

    start: int
    end: int
    text: int
    went: int
    flags: int


class TextHistory:
    """The words of a program at any time of a trace."""

    def __init__(self, recording: Recording, program: Program, skew: int, *, says_exceptions: bool) -> None:
        """``skew``: ns by which the two clocks may differ. ``says_exceptions``: see ``may_be_exceptions``.

        Raises:
            InputError: the recording has no times that a trace could have.

        """
        if recording.origin.clock != "ns":
            raise InputError(
                "its times are instructions, those of a trace ns: record both in one run (trace record --writes)",
                path=recording.path,
            )
        rows = recording.rows
        rows = rows[program.piece_of(rows["address"], rows["address"] + np.uint64(4)) >= 0]
        self._rows = rows[np.argsort(rows["address"], kind="stable")]  # each address's in the order of time
        self._addresses, first = np.unique(self._rows["address"], return_index=True)
        self._bounds = np.append(first, len(rows))
        self._path, self._program = recording.path, program
        self._skew, self._says_exceptions = skew, says_exceptions
        self._keys, self._spans = Interner(), list[_Span]()
        self._first, self._last = np.zeros(0, np.uint64), np.zeros(0, np.uint64)  # times of each span's writes
        self._judged: dict[_Step, bool] = {}

    @property
    def count(self) -> int:
        """Addresses of the program that were written."""
        return len(self._addresses)

    def texts(self, batch: Batch, instants: Instants, mine: I64, account: Tally) -> I64:
        """The number of each range's text, or ``NO_TEXT``; shape of the batch.

        ``mine`` are the rows of ranges of the program; ``account`` learns how those near a write were decided.

        Raises:
            InputError: the trace has no times.

        """
        found = np.full(len(batch.ranges), NO_TEXT, np.int64)
        starts, ends = batch.ranges["start"][mine], batch.ranges["end"][mine]
        low, high = np.searchsorted(self._addresses, starts), np.searchsorted(self._addresses, ends)
        hot = np.flatnonzero(high > low)
        hot = hot[self._program.piece_of(starts[hot], ends[hot]) >= 0]
        if not len(hot):
            return found
        rows = mine[hot]
        if not batch.ranges["time"][rows].any():
            raise InputError("needs times in the trace: add time to -F of perf script", path=self._path)
        spans = self._numbers(low[hot] << _HALF | high[hot])
        early = shifted(instants.latest[rows], self._skew) < self._first[spans]
        late = instants.earliest[rows] > shifted(self._last[spans], self._skew)
        found[rows[early]] = 0
        final = np.array([span.texts[-1] for span in self._spans], np.int64)
        found[rows[late]] = final[spans[late]]
        rest = np.flatnonzero(~early & ~late)
        for number in np.unique(spans[rest]).tolist():
            some = rows[rest[spans[rest] == number]]
            found[some] = self._of_span(self._spans[number], batch, instants, some, account)
        return found

    def words(self, start: int, end: int, text: int, words: U32) -> U32:
        """The words of a range with a text; ``words`` are the image's."""
        low, high = np.searchsorted(self._addresses, np.array([start, end], np.uint64)).tolist()
        span = self._spans[int(self._numbers(np.array([low << _HALF | high]))[0])]
        at = ((span.addresses - np.uint64(start)) >> np.uint64(2)).astype(np.int64)
        found = words.copy()
        found[at] = np.where(span.known[text], span.words[text], found[at])
        return found

    # spans

    def _numbers(self, keys: I64) -> I64:
        """The row in ``_spans`` of each pair of rows of addresses."""
        numbers, fresh = self._keys.numbers(keys.view(np.uint64))
        if len(fresh):
            new = [self._span(key >> _HALF, key & (1 << _HALF) - 1) for key in keys[fresh].tolist()]
            self._spans += new
            first = np.array([span.times[0] for span in new], np.uint64)
            last = np.array([span.times[-1] for span in new], np.uint64)
            self._first, self._last = np.concatenate([self._first, first]), np.concatenate([self._last, last])
        return numbers

    def _span(self, low: int, high: int) -> _Span:
        rows = self._rows[self._bounds[low] : self._bounds[high]]
        column = np.repeat(np.arange(high - low), np.diff(self._bounds[low : high + 1]))
        first = self._rows[self._bounds[low:high]]
        known = (first["flags"] & np.uint32(Flag.OLD_UNKNOWN) == 0).tolist()
        words: list[int] = first["old"].tolist()
        order = np.argsort(rows["time"], kind="stable")
        states: dict[tuple[tuple[int, ...], tuple[bool, ...]], int] = {}
        texts, times = [], []
        columns = (rows["time"][order].tolist(), column[order].tolist(), rows["new"][order].tolist())
        for time, place, word in zip(*columns, strict=True):
            texts.append(states.setdefault((tuple(words), tuple(known)), len(states)))
            times.append(time)
            words[place], known[place] = word, True
        texts.append(states.setdefault((tuple(words), tuple(known)), len(states)))
        return _Span(
            np.array(times, np.uint64),
            np.array(texts, np.int64),
            self._addresses[low:high],
            np.array([state[0] for state in states], np.uint32),
            np.array([state[1] for state in states], np.bool_),
        )

    # ranges near a write

    def _of_span(self, span: _Span, batch: Batch, instants: Instants, rows: I64, account: Tally) -> I64:
        """The text of each of some ranges of one span."""
        earliest, latest = instants.earliest[rows], instants.latest[rows]
        found: I64 = span.texts[np.searchsorted(span.times, batch.ranges["time"][rows], side="right")]
        low = np.searchsorted(span.times, earliest - np.minimum(earliest, np.uint64(self._skew)))
        high = np.searchsorted(span.times, shifted(latest, self._skew), side="right")
        for k in np.flatnonzero(low < high).tolist():
            near = np.unique(span.texts[low[k] : high[k] + 1])
            if len(near) > 1:
                options = [int(found[k]), *near[near != found[k]].tolist()]
                found[k] = self._choose(batch, instants, int(rows[k]), options, account)
        return found

    def _choose(self, batch: Batch, instants: Instants, row: int, options: list[int], account: Tally) -> int:
        """The text that ran, of those that stood there about then, the one of the range's own time first."""
        _, start, end, *_, flags = batch.ranges[row].item()
        can = options
        if not flags & SAMPLE:
            onward = int(instants.onward[row]), int(instants.flags[row])
            can = [text for text in options if self._can_run(_Step(start, end, text, *onward))]
        if len(can) == 1:
            account.add("ranges near a write to their words: the flow says which word ran")
        elif can:
            account.add("ranges near a write to their words, and several of these may have run: the one of the time")
        else:
            account.add("ranges near a write to their words, of which none fits the flow")
        return can[0] if can else options[0]

    def _can_run(self, step: _Step) -> bool:
        if step not in self._judged:
            self._judged[step] = self._is_possible(step)
        return self._judged[step]

    def _is_possible(self, step: _Step) -> bool:
        start, end, text, went, flags = step
        bounds = np.array([start, end], np.uint64)
        piece = int(self._program.piece_of(bounds[:1], bounds[1:])[0])
        words = self.words(start, end, text, self._program.words(start, end, piece))
        places = bounds[0] + np.arange(len(words), dtype=np.uint64) * np.uint64(4)
        if never_goes_on(words[:-1], places[:-1]).any():
            return False
        if not went:
            return True
        to = np.array([went], np.uint64)
        flow = possible_steps(words[-1:], places[-1:], to, np.array([flags], np.uint8), self._program.vectors)
        nowhere: Bool = self._program.piece_of(to, to + np.uint64(4)) < 0
        maybe = may_be_exceptions(words[-1:], to, nowhere, says_exceptions=self._says_exceptions)
        return bool(flow[0] | maybe[0])
