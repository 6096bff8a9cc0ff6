"""Divergences of a decoder that follows a file: the same trace decoded with both texts, packet by packet.

A packet has the same offset in both, so its ranges can be compared, however far the file's decoder is astray.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64
from prologue.live.system.programs import Program
from prologue.trace.coresight.elements import ElementKind, Elements
from prologue.trace.coresight.process import Begin, CodeMemory, DecodeJob, Failed, decode
from prologue.trace.etm.waypoints import find_waypoints
from prologue.trace.readers.decoding import DecodedTrace
from prologue.trace.readers.intern import mix_rows

_ROW: Final = np.dtype([("index", "<u8"), ("start", "<u8"), ("end", "<u8"), ("count", "<u4"), ("kind", "<u4")])
_ALL: Final = 1 << 64


@dataclass(slots=True, kw_only=True)
class DivergentWord:
    """A word of the file that led its decoder away: address, the file's word, the word that ran, count and CPUs."""

    vaddr: int
    word: int
    ran: int
    count: int = 0
    cpus: set[int] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Divergences:
    """The divergences of a trace. ``ran`` and ``missed`` count instructions by CPU.

    ``elsewhere`` are first divergences at no word that differs, ``not_compared`` recordings that a decoder left early.
    """

    words: dict[int, DivergentWord] = field(default_factory=dict)
    elsewhere: int = 0
    not_compared: int = 0
    ran: Counter[int] = field(default_factory=Counter)
    missed: Counter[int] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        """The share of the instructions that ran that a decoder with the file misses."""
        return self.missed.total() / max(self.ran.total(), 1)

    def add(self, other: Divergences) -> None:
        """Add the divergences of one recording."""
        self.elsewhere += other.elsewhere
        for vaddr, word in other.words.items():
            merged = self.words.setdefault(vaddr, DivergentWord(vaddr=vaddr, word=word.word, ran=word.ran))
            merged.count += word.count
            merged.cpus |= word.cpus
        self.ran.update(other.ran)
        self.missed.update(other.missed)

    def ordered(self) -> list[DivergentWord]:
        """Return the words, the most frequent first."""
        return sorted(self.words.values(), key=lambda word: (-word.count, word.vaddr))


def find_divergences(trace: DecodedTrace, file: Program, running: Program) -> Divergences:
    """Decode a trace with the text of a file and with the text that ran.

    Args:
        trace: it follows the text that ran.
        file: the kernel with the file's text, at run-time addresses.
        running: the kernel with the text that ran.

    """
    divergences = Divergences()
    for job, namings in trace.jobs:
        ran = replace(job, memory=trace.memory, changes=trace.changes, user=trace.user_code, indexed=True, checks=False)
        other = replace(ran, memory=_with_text(trace.memory, file), changes=None)
        sides = _Decoding(ran, trace), _Decoding(other, trace)
        for number in range(len(job.parts)):
            part = Divergences()
            cpu = namings[job.parts[number].source].cpu
            _Part(part, file, running, cpu).run(*(side.part(number) for side in sides))
            if any(side.failed for side in sides):  # missing ranges are not the file's fault
                divergences.not_compared += 1
            else:
                divergences.add(part)
    return divergences


def _with_text(memory: tuple[CodeMemory, ...], file: Program) -> tuple[CodeMemory, ...]:
    """Return the same pieces with the words of the file, as far as it has them."""
    changed = []
    for piece in memory:
        words = np.frombuffer(piece.data, "<u4").copy()
        places = np.uint64(piece.vaddr) + np.arange(len(words), dtype=np.uint64) * np.uint64(4)
        file_words, present = file.words_at(places)
        words[present] = file_words[present]
        changed.append(piece._replace(data=words))
    return tuple(changed)


class _Decoding:
    """The messages of one decoding, part after part."""

    def __init__(self, job: DecodeJob, trace: DecodedTrace) -> None:
        self._messages = decode(job, trace.version)
        self._next: Begin | None = None
        self.failed = False  # in the last part

    def part(self, number: int) -> Iterator[dict[int, npt.NDArray[Any]]]:
        """Yield rows of ``_ROW`` by trace ID, block after block; nothing for a part that was not begun."""
        self.failed = False
        if self._next is None:
            self._next = next((message for message in self._messages if isinstance(message, Begin)), None)
        if self._next is None or self._next.part != number:
            self.failed = True
            return
        self._next = None
        for message in self._messages:
            if isinstance(message, Begin):
                self._next = message
                return
            if isinstance(message, Elements):
                yield _by_id(message)
            self.failed |= isinstance(message, Failed)


def _by_id(elements: Elements) -> dict[int, npt.NDArray[Any]]:
    kinds = elements.rows["kind"]
    at = np.flatnonzero((kinds == ElementKind.INSTR_RANGE) | (kinds == ElementKind.TRACE_ON))
    rows = np.zeros(len(at), _ROW)
    rows["index"], rows["kind"] = elements.indexes[at], kinds[at]
    for name in ("start", "end"):
        rows[name] = elements.rows[name][at]
    rows["count"] = np.where(rows["kind"] == ElementKind.INSTR_RANGE, elements.rows["value"][at], 0)
    ids = elements.ids[at]
    return {number: rows[ids == number] for number in np.unique(ids).tolist()}


class _Part:
    """The comparison of one recording; state is by trace ID."""

    def __init__(self, divergences: Divergences, file: Program, running: Program, cpu: Any) -> None:
        self._divergences, self._file, self._running, self._cpu = divergences, file, running, cpu
        self._waiting: tuple[dict[int, Any], dict[int, Any]] = {}, {}
        self._astray: set[int] = set()
        self._before: dict[int, int] = {}  # address after the last range

    def run(self, ran: Iterator[dict[int, Any]], other: Iterator[dict[int, Any]]) -> None:
        """Take both sides block by block, always from the side with fewer rows that wait."""
        blocks = [ran, other]
        is_open = [True, True]
        while any(is_open):
            side = 0 if is_open[0] and (not is_open[1] or self._size(0) <= self._size(1)) else 1
            block = next(blocks[side], None)
            if block is None:
                is_open[side] = False
            else:
                for number, rows in block.items():
                    old = self._waiting[side].get(number)
                    self._waiting[side][number] = rows if old is None else np.concatenate([old, rows])
            self._compare(is_open)

    def _size(self, side: int) -> int:
        return sum(map(len, self._waiting[side].values()))

    def _compare(self, is_open: list[bool]) -> None:
        """Compare the packets of which both sides have all rows."""
        for number in set(self._waiting[0]) | set(self._waiting[1]):
            pairs = [self._waiting[side].get(number, np.zeros(0, _ROW)) for side in (0, 1)]
            ends = [
                (int(rows["index"][-1]) if len(rows) else -1) if may_grow else _ALL
                for rows, may_grow in zip(pairs, is_open, strict=True)
            ]
            bound = min(ends)
            if bound < 0:
                continue
            cuts = [len(rows) if bound == _ALL else int(np.searchsorted(rows["index"], bound)) for rows in pairs]
            for side in (0, 1):
                self._waiting[side][number] = pairs[side][cuts[side] :]
            self._window(number, pairs[0][: cuts[0]], pairs[1][: cuts[1]])

    def _window(self, number: int, ran: npt.NDArray[Any], other: npt.NDArray[Any]) -> None:
        cpu = self._cpu(number)
        is_range = ran["kind"] == ElementKind.INSTR_RANGE
        missed = is_range & ~np.isin(_keys(ran), _keys(other))
        self._divergences.ran[cpu] += int(ran["count"][is_range].sum())
        self._divergences.missed[cpu] += int(ran["count"][missed].sum())
        # The first missed range after each synchronisation: segments begin with a trace-on.
        segments = np.cumsum(~is_range)
        rows = np.flatnonzero(missed)
        _, first = np.unique(segments[rows], return_index=True)
        for row in rows[first].tolist():
            if segments[row] or number not in self._astray:
                begins = not row or not is_range[row - 1]
                before = int(ran["end"][row - 1]) if not begins else self._before.get(number, 0) if not row else 0
                self._locate(int(ran["start"][row]), int(ran["end"][row]), before, cpu)
        if len(ran):
            last = int(segments[-1])
            if last:
                self._astray.discard(number)
            if len(rows) and int(segments[rows[-1]]) == last:
                self._astray.add(number)
            self._before[number] = int(ran["end"][-1]) if is_range[-1] else 0

    def _locate(self, start: int, end: int, before: int, cpu: int) -> None:
        """Name the word that led the file's decoder away from a range: in it, or the end of the one before it."""
        places = np.arange(start, end, 4, dtype=np.uint64)
        if before:
            places = np.append(np.uint64(before - 4), places)
        (file_words, in_file), (ran, has_ran) = self._file.words_at(places), self._running.words_at(places)
        differ = np.flatnonzero((file_words != ran) & in_file & has_ran)
        steering = differ[(find_waypoints(file_words[differ]) != 0) | (find_waypoints(ran[differ]) != 0)]
        chosen: I64 = steering if len(steering) else differ
        if not len(chosen):
            self._divergences.elsewhere += 1
            return
        at = int(chosen[0])
        vaddr = int(places[at])
        new = DivergentWord(vaddr=vaddr, word=int(file_words[at]), ran=int(ran[at]))
        word = self._divergences.words.setdefault(vaddr, new)
        word.count += 1
        word.cpus.add(cpu)


def _keys(rows: npt.NDArray[Any]) -> U64:
    return mix_rows(rows["index"].copy(), rows["start"].copy(), rows["end"].copy())
