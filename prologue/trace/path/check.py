"""The check that an image is the code that ran: every distinct range and every distinct step of a trace is judged.

A range that runs through a branch that is always taken did not run with this image: it is left out, and a gap takes
its place. A word of the image that cannot be the word that ran is stale. Words that do not direct the flow (NOP or MOV,
say) leave no mark in a trace, and are not judged.

A decoder follows the program in an image. After an impossible step it is astray until the trace has the next address.
So only the first impossible step of each CPU after a gap is evidence against a word. No decoder followed a recording
of QEMU's, and each of its impossible steps is evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, Bool
from prologue.insn.disasm import insn_text
from prologue.insn.rows import flows
from prologue.trace.path.branching import DIRECT, TRAP, UNDEFINED, targets
from prologue.trace.path.filters import Selection
from prologue.trace.path.impossible import FirstImpossible, Instant
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.listing import plain_place
from prologue.trace.path.steps import Sequence, Sequences
from prologue.trace.path.verdicts import IMPOSSIBLE, UNJUDGED, RangeVerdicts, StepVerdicts, is_plain
from prologue.trace.ranges import EXCEPTION, GAP, RETURN, UNSURE, Batch, is_earlier
from prologue.trace.readers.decoders import Decoder, name_of
from prologue.trace.readers.intern import RunCounts
from prologue.trace.readers.sources import Trace
from prologue.words import counted

_NOT_TAKEN: Final = 0
"""Execution went to the next instruction; stands for its address."""
_UNSURE: Final = "steps that cannot be, after a return which the decoder may have followed wrongly"
_IGNORED: Final = (
    "steps that cannot be, after a conditional branch which the decoder may not know (OpenCSD follows bc.cond from "
    "1.3.0 on, cb<cc> from 1.6.0 on)"
)
_RUNAWAY: Final = 8
"""Branches that are always taken in one range: stale words do not explain as many."""


@dataclass(slots=True, kw_only=True)
class StaleWord:
    """A word of an image that cannot have been executed as it is.

    ``went`` are addresses where execution went on after it, with counts; 0 is the next instruction. ``time`` (ns) and
    ``cpu`` are of the first of these steps that is known; ``cpu`` is -1 if no step is.
    """

    program: int
    vaddr: int
    word: int
    went: Counter[int] = field(default_factory=Counter)
    time: int = 0
    cpu: int = -1
    branches: int = 0
    """Branches that a decoder that ran away ran through from here on, in one range: the image is not to blame."""

    @property
    def count(self) -> int:
        """Number of times that another word was executed here."""
        return self.went.total()

    def seen(self, instant: Instant | None) -> None:
        """Keep the first instant; one whose time is not known (0) only if there is no other."""
        if instant is not None and (self.cpu < 0 or is_earlier(instant.time, self.time)):
            self.time, self.cpu = instant


class Findings(NamedTuple):
    """Words by program and address: stale words; words that follow from these; and words that the decoder ignored."""

    stale: list[StaleWord]
    follow: list[StaleWord]
    decoder: list[StaleWord]

    @property
    def following(self) -> int:
        """Number of impossible steps that follow from others."""
        return sum(word.count for word in self.follow)


class ImageCheck:
    """The check of a trace, batch by batch, which leaves out ranges that did not run."""

    def __init__(self, known: KnownRanges, trace: Trace) -> None:
        self._known = known
        self.kernels = known.kernels
        self._programs = known.kernels.programs
        self.decoder = trace.decoder
        self._sequences = Sequences()
        self._ranges = RangeVerdicts(known, self.decoder)
        self._steps = StepVerdicts(known, says_exceptions=trace.kind != "perf")
        self._first = FirstImpossible(every=self.decoder is None)
        self._step_runs, self._broken_runs, self._unsure_runs = RunCounts(), RunCounts(), RunCounts()
        self._left = Selection()
        self.unjudged: Counter[str] = Counter()
        self.judged = self.impossible = 0
        self._missed = False  # the decoder may not have known a branch,
        self._ignored_at = 0  # in this row of the batch for the first time; -1: in an earlier batch

    def executed(self, trace: Trace) -> Iterator[tuple[Batch, I64]]:
        """Yield the batches of a trace with the ranges that can have run, and the number of each range.

        Raises:
            InputError: see ``KnownRanges.numbered``.

        """
        for batch, numbers in self._known.numbered(trace):
            yield self._take(batch, numbers)

    def _take(self, batch: Batch, numbers: I64) -> tuple[Batch, I64]:
        ranges, known = batch.ranges, self._ranges
        known.learn()
        ignored = np.flatnonzero(known.ignored[numbers])
        self._ignored_at = -1 if self._missed else int(ignored[0]) if len(ignored) else len(numbers)
        self._missed |= len(ignored) > 0
        sequence = self._sequences.take(ranges, numbers)
        places, steps = self._impossible(batch, sequence)
        broken = known.broken[numbers]
        if not broken.any():
            self._first.take(batch, sequence, places, steps, np.zeros(0, np.int64))
            return self._left.take(batch, numbers, ~broken)
        inside = np.flatnonzero(known.broken[sequence.numbers])
        unsure = self._set_aside(sequence, inside, self._ignored_at)
        self._unsure_runs.add(sequence.numbers[inside[unsure]])
        inside = inside[~unsure]
        self._first.take(batch, sequence, places, steps, inside)
        self._broken_runs.add(sequence.numbers[inside])
        self.impossible += len(inside)
        ranges = ranges.copy()
        ranges["flags"][broken] |= np.uint8(GAP)
        return self._left.take(batch._replace(ranges=ranges), numbers, ~broken)

    def _impossible(self, batch: Batch, sequence: Sequence) -> tuple[I64, I64]:
        """Find impossible steps: the places in the sequence that they lead to, and their numbers."""
        before = sequence.before
        with_step = np.flatnonzero((before >= 0) & (sequence.flags & np.uint8(GAP) == 0))
        known = self._ranges.judged[before[with_step]]
        self._leave_out("steps from code that is in no image", len(with_step) - int(known.sum()))
        if self.decoder is not None:  # the end of a range that did not run is no evidence
            known &= ~self._ranges.broken[before[with_step]]
        with_step = with_step[known]
        starts, flags = batch.ranges["start"][sequence.rows[with_step]], sequence.flags[with_step]
        odd = with_step[~is_plain(self._ranges, before[with_step], starts, flags)]
        marks = sequence.flags[odd] & np.uint8(EXCEPTION | RETURN)
        numbers, verdicts = self._steps.numbers(before[odd], sequence.numbers[odd], marks)
        maybe = int((verdicts == UNJUDGED).sum())
        self._leave_out("steps to code that is in no image, which may be exceptions", maybe)
        wrong = np.flatnonzero(verdicts == IMPOSSIBLE)
        unsure = self._set_aside(sequence, odd[wrong], self._ignored_at + 1)
        wrong = wrong[~unsure]
        self.judged += len(with_step) - maybe - int(unsure.sum())
        self._step_runs.add(numbers[wrong])
        self.impossible += len(wrong)
        return odd[wrong], numbers[wrong]

    def _set_aside(self, sequence: Sequence, places: I64, row: int) -> Bool:
        """Tell at which impossible places the decoder may be astray whatever the image, and count them.

        From ``row`` of the batch on, it may have missed a branch.
        """
        unsure: Bool = sequence.flags[places] & np.uint8(UNSURE) != 0
        missed = (sequence.rows[places] >= row) & ~unsure
        self._leave_out(_UNSURE, int(unsure.sum()))
        self._leave_out(_IGNORED, int(missed.sum()))
        return unsure | missed

    @property
    def ignoring(self) -> str:
        """Say how many impossible steps were not judged, as the decoder may have missed a branch; empty if none."""
        count = self.unjudged[_IGNORED]
        return f"{counted(count, 'step')}{_IGNORED.removeprefix('steps')}: not judged" if count else ""

    def _leave_out(self, why: str, count: int) -> None:
        if count:
            self.unjudged[why] += count

    # findings

    @property
    def left_out(self) -> tuple[int, int]:
        """Ranges that did not run as the image has them, and their instructions."""
        table, runs = self._known.table, self._left_out_runs
        return int(runs.sum()), int((((table["end"] - table["start"]) >> np.uint64(2)).astype(np.int64) * runs).sum())

    @property
    def _left_out_runs(self) -> I64:
        count = len(self._known.table)
        return self._broken_runs.up_to(count) + self._unsure_runs.up_to(count)

    def first_stop(self) -> str:
        """Describe the branch that the first range that was left out runs through, with its place."""
        number = int(np.flatnonzero(self._left_out_runs)[0])
        vaddr, word = self._ranges.stops(number)[0]
        program = self._programs[int(self._known.table["program"][number])]
        return f"{name_of(word)} at {plain_place(program, vaddr)}"

    def findings(self) -> Findings:
        """Return every word that cannot have been executed as it is."""
        words: dict[tuple[int, int, int], StaleWord] = {}
        evident: set[tuple[int, int, int]] = set()
        steps = self._step_runs.up_to(len(self._steps.steps.table))
        for number in np.flatnonzero(steps).tolist():
            program, vaddr, word, went = self._steps.word(number)
            went = _NOT_TAKEN if went == vaddr + 4 else went
            stale_word = self._note(words, evident, (program, vaddr, word), self._first.steps.get(number))
            stale_word.went[went] += int(steps[number])
        runs = self._broken_runs.up_to(len(self._known.table))
        for number in np.flatnonzero(runs).tolist():
            program = int(self._known.table["program"][number])
            stops = self._ranges.stops(number)
            # After a decoder ran through the first stop, the range is not what ran.
            for vaddr, word in stops if self.decoder is None else stops[:1]:
                stale_word = self._note(words, evident, (program, vaddr, word), self._first.ranges.get(number))
                stale_word.branches = self._branches(stale_word, stops)
                stale_word.went[_NOT_TAKEN] += int(runs[number])
        ignored = self._ignored(words)
        stale = [words[key] for key in sorted(evident - ignored.keys())]
        follow = [words[key] for key in sorted(words.keys() - evident - ignored.keys())]
        return Findings(stale, follow, [ignored[key] for key in sorted(ignored)])

    def _branches(self, word: StaleWord, stops: list[tuple[int, int]]) -> int:
        """Count the branches that a decoder that ran away ran through; 0 if any range with that word ends earlier."""
        kinds = flows(np.array([stop for _, stop in stops], np.uint32))
        count = int((~np.isin(kinds, (TRAP, UNDEFINED))).sum())
        first = word.branches == 0 and word.count > 0
        return 0 if self.decoder is None or count < _RUNAWAY or first else max(count, word.branches)

    @staticmethod
    def _note(
        words: dict[tuple[int, int, int], StaleWord],
        evident: set[tuple[int, int, int]],
        key: tuple[int, int, int],
        instant: Instant | None,
    ) -> StaleWord:
        program, vaddr, word = key
        stale_word = words.setdefault(key, StaleWord(program=program, vaddr=vaddr, word=word))
        if instant is not None:
            stale_word.seen(instant)
            evident.add(key)
        return stale_word

    def _ignored(self, words: dict[tuple[int, int, int], StaleWord]) -> dict[tuple[int, int, int], StaleWord]:
        """Find branches that the decoder did not know, and ran through."""
        if self.decoder is None:
            return {}
        keys = [key for key, word in words.items() if set(word.went) == {_NOT_TAKEN}]
        may = self.decoder.may_ignore(np.array([key[2] for key in keys], np.uint32)).tolist()
        return {key: words[key] for key, ignored in zip(keys, may, strict=True) if ignored or words[key].branches}

    def describe(self, stale: StaleWord) -> str:
        """Describe in one sentence how a word differs from what ran."""
        program = self._programs[stale.program]
        (went, _), *others = stale.went.most_common()
        kind = int(flows(np.array([stale.word], np.uint32))[0])
        if kind in DIRECT:
            target = int(targets(np.array([stale.word], np.uint32), np.array([stale.vaddr], np.uint64))[0])
            mnemonic = insn_text(stale.word, stale.vaddr).partition("#")[0].strip()
            text = f"{mnemonic} {plain_place(program, target)}"
        else:
            text = insn_text(stale.word, stale.vaddr)
        if went == _NOT_TAKEN:
            why = "did not trap" if kind in (TRAP, UNDEFINED) else "was not taken"
        elif kind in DIRECT:
            why = f"is not what ran: execution went on at {plain_place(program, went)}"
        else:
            why = f"is not a branch, but execution went on at {plain_place(program, went)}"
        if not others:
            return f"{text} {why}"
        also = counted(len(others), "other place")
        return f"{text} {why}" + (f"; it also went on at {also}" if went == _NOT_TAKEN else f" and {also}")

    def why_ignored(self, word: StaleWord) -> str:
        """Explain why the decoder ran through a branch, and what to do."""
        if word.branches:
            return f"it ran through {word.branches:,} branches in one range: damage in the trace"
        return (self.decoder or Decoder()).why(word.word)

    def place(self, word: StaleWord) -> str:
        """Return symbol and offset of a word."""
        return plain_place(self._programs[word.program], word.vaddr)
