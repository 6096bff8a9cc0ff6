"""Text that changed while it was traced: recorded writes give each range the words of its instant.

A write and a range are of different CPUs and clocks, so near a write either word may have run. There the flow decides,
if the word directs it: the range must be able to run through, and to lead to where its CPU went on. Texts of one
instant are tried first; then each written word by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U32, U64, Bool
from prologue.elf.notes import gnu_build_id
from prologue.errors import InputError
from prologue.live.memory.ranges import TOP
from prologue.live.pokes.convert import ARM64
from prologue.live.pokes.recording import Flag, Recording, Rows
from prologue.live.pokes.sources import read_any
from prologue.live.system.programs import Program
from prologue.trace.path.branching import may_be_exceptions, never_goes_on, possible_steps
from prologue.trace.path.instants import UNBOUNDED, Instants
from prologue.trace.ranges import Batch, Tally, shift_times
from prologue.trace.readers.intern import Interner

NO_TEXT: Final = -1
"""The range has no word that was ever written; stands for a text's number."""
_HALF: Final = 32  # bits of a row in a key of two
_SEVERAL: Final = "a write to their words, and several of these may have run: the one of the time"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """Written addresses that several ranges share, and their texts.

    ``times`` (ns) of the writes to them, shape (k,); ``texts``, shape (k + 1,): the row in ``words`` after each number
    of writes. ``addresses`` shape (n,), ``words`` shape (m, n): each distinct state; ``known``, of its shape, is false
    for words that only the image has.
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
        """Take the writes of a recording to a program's text.

        ``skew``: ns by which the two clocks may differ. ``says_exceptions``: see ``may_be_exceptions``.

        Raises:
            InputError: the recording has no times that a trace could have.

        """
        if recording.header.clock != "ns":
            raise InputError(
                "its times are instructions, those of a trace ns: record both in one run (trace record --save-writes)",
                path=recording.path,
            )
        rows = recording.rows
        rows = rows[program.piece_of(rows["address"], rows["address"] + np.uint64(4)) >= 0]
        self._times: U64 = rows["time"]
        self._jumps = _jumps(rows)
        parts = [rows]
        for start, end, shift in program.mapped_twice():
            part = rows[(rows["address"] >= np.uint64(start)) & (rows["address"] < np.uint64(end))]
            part["address"] += np.uint64(shift & TOP)
            parts.append(part)
        rows = np.concatenate(parts)
        self._rows = rows[np.argsort(rows["address"], kind="stable")]  # each address's in the order of time
        self._addresses, first = np.unique(self._rows["address"], return_index=True)
        self._bounds = np.append(first, len(rows))
        self._path, self._program = recording.path, program
        self._skew, self._says_exceptions = skew, says_exceptions
        self._keys, self._spans = Interner(), list[_Span]()
        self._first, self._last = np.zeros(0, np.uint64), np.zeros(0, np.uint64)  # times of each span's writes
        self._fits = cache(self._judge)
        self._ending = recording.trailer
        self._begin, self._end = (1 << 64) - 1, 0  # times of the trace

    @property
    def count(self) -> int:
        """Addresses of the program that were written."""
        return len(self._addresses)

    def texts(self, batch: Batch, instants: Instants, of_program: I64, account: Tally) -> I64:
        """Return the number of each range's text, or ``NO_TEXT``; shape of the batch.

        ``of_program`` are the rows of its ranges; ``account`` counts how ranges near a write were decided.

        Raises:
            InputError: the trace has no times.

        """
        # Times of a batch may all be 0, before the first timestamp of its CPU.
        times = np.concatenate([batch.ranges["time"], instants.latest])
        times = times[(times > 0) & (times < np.uint64(UNBOUNDED))]
        if len(times):
            self._begin, self._end = min(self._begin, int(times.min())), max(self._end, int(times.max()))
        texts = np.full(len(batch.ranges), NO_TEXT, np.int64)
        starts, ends = batch.ranges["start"][of_program], batch.ranges["end"][of_program]
        low, high = np.searchsorted(self._addresses, starts), np.searchsorted(self._addresses, ends)
        hot = np.flatnonzero(high > low)
        hot = hot[self._program.piece_of(starts[hot], ends[hot]) >= 0]
        if not len(hot):
            return texts
        rows = of_program[hot]
        if not self._end:
            raise InputError("needs times in the trace (time in -F of perf script; timestamps)", path=self._path)
        spans = self._numbers(low[hot] << _HALF | high[hot])
        early = shift_times(instants.latest[rows], self._skew) < self._first[spans]
        late = instants.earliest[rows] > shift_times(self._last[spans], self._skew)
        texts[rows[early]] = 0
        final = np.array([span.texts[-1] for span in self._spans], np.int64)
        texts[rows[late]] = final[spans[late]]
        between = np.flatnonzero(~early & ~late)
        for number in np.unique(spans[between]).tolist():
            span_rows = rows[between[spans[between] == number]]
            texts[span_rows] = self._of_span(number, batch, instants, span_rows, account)
        return texts

    def close(self, account: Tally) -> None:
        """Note in ``account``, at the end of the trace, gaps of the recording, and if it is of another time."""
        for loss in self._ending.lost:
            if loss.amount is None:
                account.add(f"loss of an unknown size in the recording of writes: {loss.what}")
            else:
                account.add(f"{loss.what}: lost by the recording of writes", loss.amount)
        if not self._ending.complete:
            account.add("recording of writes that has no end: its recorder was killed, later writes are missing")
        account.add(
            "writes whose old word is not what the write before them left: one between is missing", self._jumps,
            singular="write whose old word is not what the write before it left: one between is missing",
        )  # fmt: skip
        times = self._times
        low, high = shift_times(np.array([self._begin], np.uint64), -self._skew), self._end + self._skew
        if self._end and not ((times >= low) & (times <= np.uint64(high))).any():
            of_writes = _seconds(int(times.min()), int(times.max()))
            of_trace = _seconds(self._begin, self._end)
            account.add(
                f"writes, none within the trace's times: these are {of_trace}, theirs {of_writes}", len(times),
                singular=f"write, not within the trace's times: these are {of_trace}, its is {of_writes}",
            )  # fmt: skip

    def words(self, start: int, end: int, text: int, words: U32) -> U32:
        """Return the words of a range with a text; ``words`` are the image's."""
        low, high = np.searchsorted(self._addresses, np.array([start, end], np.uint64)).tolist()
        span = self._spans[self._number(low, high)]
        at = ((span.addresses - np.uint64(start)) >> np.uint64(2)).astype(np.int64)
        changed = words.copy()
        changed[at] = np.where(span.known[text], span.words[text], changed[at])
        return changed

    def part(self, start: int, end: int, text: int, part_start: int, part_end: int) -> int:
        """Return the text of a part of a range that has a text."""
        ends = np.array([start, end, part_start, part_end], np.uint64)
        low, high, part_low, part_high = np.searchsorted(self._addresses, ends).tolist()
        if part_low == part_high:
            return NO_TEXT
        whole, columns = self._spans[self._number(low, high)], slice(part_low - low, part_high - low)
        return self._state(self._number(part_low, part_high), whole.words[text, columns], whole.known[text, columns])

    # spans

    def _number(self, low: int, high: int) -> int:
        return int(self._numbers(np.array([low << _HALF | high]))[0])

    def _state(self, number: int, words: U32, known: Bool) -> int:
        """Return the text of a span that has these words; it gets one of no instant if there is none."""
        span = self._spans[number]
        same = np.flatnonzero((span.words == words).all(axis=1) & (span.known == known).all(axis=1))
        if len(same):
            return int(same[0])
        more = replace(span, words=np.vstack([span.words, words]), known=np.vstack([span.known, known]))
        self._spans[number] = more
        return len(span.words)

    def _numbers(self, keys: I64) -> I64:
        """Return the row in ``_spans`` of each pair of rows of addresses."""
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
            times=np.array(times, np.uint64),
            texts=np.array(texts, np.int64),
            addresses=self._addresses[low:high],
            words=np.array([state[0] for state in states], np.uint32),
            known=np.array([state[1] for state in states], np.bool_),
        )

    # ranges near a write

    def _of_span(self, number: int, batch: Batch, instants: Instants, rows: I64, account: Tally) -> I64:
        """Return the text of each of some ranges of one span."""
        span = self._spans[number]
        earliest, latest = instants.earliest[rows], instants.latest[rows]
        times = batch.ranges["time"][rows]
        # Before the first timestamp of a CPU, the nearest known time is that timestamp.
        times = np.where((times == 0) & (latest < np.uint64(UNBOUNDED)), latest, times)
        texts: I64 = span.texts[np.searchsorted(span.times, times, side="right")]
        low = np.searchsorted(span.times, earliest - np.minimum(earliest, np.uint64(self._skew)))
        high = np.searchsorted(span.times, shift_times(latest, self._skew), side="right")
        for k in np.flatnonzero(low < high).tolist():
            near = np.unique(span.texts[low[k] : high[k] + 1])
            if len(near) > 1:
                row = int(rows[k])
                _, start, end, *_ = batch.ranges[row].item()
                step = _Step(
                    start=start,
                    end=end,
                    text=int(texts[k]),
                    went=int(instants.onward[row]),
                    flags=int(instants.flags[row]),
                )
                options = [step.text, *near[near != step.text].tolist()]
                texts[k] = self._choose(number, step, options, account)
        return texts

    def _choose(self, number: int, step: _Step, options: list[int], account: Tally) -> int:
        """Choose the text that ran among the texts about that time, which begin with that of the range's own time."""
        fits = np.array([self._fits(step._replace(text=text)) for text in options])
        can = [options[k] for k in np.flatnonzero(fits.all(axis=1)).tolist()]
        if can:
            _add_near(account, _SEVERAL if len(can) > 1 else "a write to their words: the flow says which word ran")
            return can[0]
        if fits.any(axis=0).all():
            _add_near(account, "writes to their words: the flow says that old and new ones ran together")
            return self._mixed(number, step.start, options, fits)
        _add_near(account, "a write to their words, of which none fits the flow")
        return options[0]

    def _mixed(self, number: int, start: int, options: list[int], fits: Bool) -> int:
        """Add a text of no instant: words are fetched one after the other, so an early word may be old, a later new."""
        span = self._spans[number]
        columns = np.arange(len(span.addresses))
        at = ((span.addresses - np.uint64(start)) >> np.uint64(2)).astype(np.int64)
        texts = np.array(options)[fits[:, at].argmax(axis=0)]
        return self._state(number, span.words[texts, columns], span.known[texts, columns])

    def _judge(self, step: _Step) -> Bool:
        """Return whether each word of a range may have run there; shape (instructions,)."""
        start, end, text, went, flags = step
        bounds = np.array([start, end], np.uint64)
        piece = int(self._program.piece_of(bounds[:1], bounds[1:])[0])
        words = self.words(start, end, text, self._program.words(start, end, piece))
        places = bounds[0] + np.arange(len(words), dtype=np.uint64) * np.uint64(4)
        fits = np.append(~never_goes_on(words[:-1], places[:-1]), np.True_)
        if not went:
            return fits
        to = np.array([went], np.uint64)
        flow = possible_steps(words[-1:], places[-1:], to, np.array([flags], np.uint8), self._program.vectors)
        nowhere: Bool = self._program.piece_of(to, to + np.uint64(4)) < 0
        maybe = may_be_exceptions(words[-1:], to, nowhere, says_exceptions=self._says_exceptions)
        fits[-1] = bool(flow[0] | maybe[0])
        return fits


def _seconds(first: int, last: int) -> str:
    return f"{first / 1e9:.3f} to {last / 1e9:.3f} s"


def _jumps(rows: Rows) -> int:
    """Count writes whose old word is not the new word of the write before them."""
    rows = rows[np.argsort(rows["address"], kind="stable")]
    unlike = (rows["address"][1:] == rows["address"][:-1]) & (rows["old"][1:] != rows["new"][:-1])
    # Before its page is executable, memory may have other content: another module's, for example.
    return int((unlike & (rows["flags"][1:] & np.uint32(Flag.OLD_UNKNOWN | Flag.UNREACHABLE) == 0)).sum())


def _add_near(account: Tally, case: str) -> None:
    account.add(f"ranges near {case}", singular=f"range near {case.replace('their', 'its')}")


def read_history(path: Path, host: Program, skew: int, *, says_exceptions: bool) -> TextHistory:
    """Read the recorded writes to a kernel's text; the parameters are those of ``TextHistory``.

    Raises:
        InputError: the file has no recorded writes, or writes of another kernel, of another boot, or of other text.

    """
    recording, image = read_any(path), host.kernel
    if recording.header.machine != ARM64:
        raise InputError(f"has no words of arm64 text: its machine is {recording.header.machine}", path=path)
    build_id, recorded = gnu_build_id(image.image), recording.header.build_id
    if build_id and recorded and build_id != recorded:
        raise InputError(f"was recorded of another kernel: build-id {recorded}, the vmlinux has {build_id}", path=path)
    slide = recording.trailer.slide
    if slide is not None and slide != image.slide:
        raise InputError(
            f"was recorded of a kernel that ran at slide {slide:#x}, the trace's is at {image.slide:#x}: another boot?",
            path=path,
        )
    history = TextHistory(recording, host, skew, says_exceptions=says_exceptions)
    if not history.count:
        raise InputError(f"has no write to text of {host.name}", path=path)
    return history
