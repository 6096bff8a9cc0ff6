"""Words of the program image that the decoder itself reports: they cannot be what ran.

OpenCSD 1.5.4 and later compare the trace with the image, if they are told to: an atom "not taken" at a branch that is
always taken, a range that does not begin where the one before it ended, a word that is no instruction. They stop
there until the trace has the next address. The report has no address: the word is found again by following the
image that is given here, from the last range on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from prologue.arrays import U32, Bool
from prologue.insn.decode import matches
from prologue.insn.rows import flows
from prologue.insn.table import pattern
from prologue.live.system.programs import Program
from prologue.trace.path.assign import USER, WORLD, Kernels
from prologue.trace.path.branching import BL, CALL, DIRECT, ERET, INDIRECT, RET, UNDEFINED, B, targets
from prologue.trace.path.listing import instructions
from prologue.trace.ranges import NO_TASK, BadImage, Batch, Onward, Reported, Tally, is_earlier, new_ranges
from prologue.trace.readers.sources import Trace

_ALWAYS_TAKEN: Final = (B, BL)
_INDIRECT: Final = (INDIRECT, CALL, RET, ERET)
_FOLLOWED: Final = 1 << 12  # instructions without a branch; no compiler makes more


@dataclass(slots=True, kw_only=True)
class ReportedWord:
    """A word of the decoder's image that the decoder itself found impossible.

    ``vaddr`` is None if the trace does not give the address, and ``word`` if no image here has it; ``program`` is -1
    then. ``exact``: no later branch can be meant. ``text`` is the word as an instruction.
    ``fits``: the report describes the word here. ``after``: the report is about an instruction after ``vaddr``, at an
    address that the trace does not give.
    """

    why: str
    program: int = -1
    vaddr: int | None = None
    word: int | None = None
    fits: bool = False
    exact: bool = False
    after: bool = False
    text: str = ""
    count: int = 0
    cpu: int = -1
    time: int = 0

    def describe(self) -> str:
        """Describe in one sentence how the word differs from what ran."""
        report = f"the decoder reports {self.why}"
        if self.vaddr is None:
            return f"{report}; the trace does not say where"
        if self.word is None:
            return f"{report}; no image here has that address"
        text = self.text
        if self.after:
            return f"{report} at an address after this {text}, which the trace does not say"
        if self.fits:
            perhaps = "" if self.exact else "; perhaps it is a branch after this one"
            return f"{text} cannot be what ran: {report}{perhaps}"
        return f"{report}, which the image here does not explain at this {text}: decode again with this image"


def reported_words(trace: Trace, kernels: Kernels) -> list[ReportedWord]:
    """Return the reported words of a trace that was read to its end, except of processes."""
    return sorted(_merged(_words(trace.account, kernels)), key=lambda word: (word.program, word.vaddr or 0, word.why))


def _merged(words: Iterable[ReportedWord]) -> Iterable[ReportedWord]:
    """Merge words of one address with the same sentence: the decoder may have reached them on several ways."""
    distinct: dict[tuple[int, int | None, str], ReportedWord] = {}
    for word in words:
        merged = distinct.setdefault((word.program, word.vaddr, word.describe()), word)
        if merged is not word:
            merged.count += word.count
            if is_earlier(word.time, merged.time):
                merged.time, merged.cpu = word.time, word.cpu
    return distinct.values()


def _words(account: Tally, kernels: Kernels) -> Iterator[ReportedWord]:
    for bad, reported in account.bad_images.items():
        row = _program_of(bad, kernels)
        if row not in (USER, WORLD):
            program = kernels.programs[row] if row >= 0 else None
            word = _word(bad, reported, program, max(row, -1))
            if program and word.vaddr is not None and word.word is not None:
                word.text = instructions(program, word.vaddr, np.array([word.word], np.uint32))[0].text
            yield word


def _program_of(bad: BadImage, kernels: Kernels) -> int:
    ranges = new_ranges(1)
    # Without an address take a kernel's: level and VMID alone decide then.
    start = bad.start or (1 << 64) - 8
    ranges["start"], ranges["end"] = start, bad.end or start + 4
    ranges["flags"], ranges["level"], ranges["vmid"] = bad.flags, bad.level, bad.vmid
    return int(kernels.rows(Batch(ranges, [NO_TASK], [""]))[0])


def _word(bad: BadImage, reported: Reported, program: Program | None, row: int) -> ReportedWord:
    reported_word = ReportedWord(why=bad.why, program=row, count=reported.count, cpu=reported.cpu, time=reported.time)
    if not bad.end:
        return reported_word
    reported_word.vaddr, reported_word.after = bad.end - 4, True
    if program is None:
        return reported_word
    words, present = program.words_at(np.array([reported_word.vaddr], np.uint64))
    if not present[0]:
        return reported_word
    reported_word.word = word = int(words[0])
    if "Discontinuous" in bad.why:  # of the range's own last word: an address packet leads elsewhere
        reported_word.after, reported_word.exact = False, True
        reported_word.fits = bool(_is_waypoint(np.array([word], np.uint32), bad.why)[0])
        return reported_word
    start = _onward(bad, word)
    branch = None if start is None else _next_waypoint(program, start, bad.why)
    if branch is not None and _fits(*branch, bad.why):
        reported_word.vaddr, reported_word.word = branch
        reported_word.fits, reported_word.after = True, False
    return reported_word


def _fits(place: int, word: int, why: str) -> bool:
    """Tell whether a report describes a word, which also leads elsewhere than to the next one."""
    words, places = np.array([word], np.uint32), np.array([place], np.uint64)
    return _is_described(int(flows(words)[0]), why) and int(targets(words, places)[0]) != place + 4


def _next_waypoint(program: Program, start: int, why: str) -> tuple[int, int] | None:
    places = np.uint64(start) + np.arange(_FOLLOWED, dtype=np.uint64) * np.uint64(4)
    words, present = program.words_at(places)
    stops = np.flatnonzero(_is_waypoint(words, why) | ~present)
    if not len(stops) or not present[stops[0]]:
        return None
    return int(places[stops[0]]), int(words[stops[0]])


def _onward(bad: BadImage, word: int) -> int | None:
    """Return the address where execution went on after the last range; None if the image here does not show it."""
    if bad.onward is Onward.NEXT:
        return bad.end
    word_array, last = np.array([word], np.uint32), np.array([bad.end - 4], np.uint64)
    if bad.onward is Onward.TARGET and flows(word_array)[0] in DIRECT:
        return int(targets(word_array, last)[0])
    return None


def _is_waypoint(words: U32, why: str) -> Bool:
    """Tell at which words a decoder stops: for the next atom, or because a word is no instruction."""
    stops: Bool = np.isin(flows(words), (*DIRECT, *_INDIRECT)) | matches(words, pattern("ISB"))
    return stops | (words >> np.uint32(16) == 0) if "INVALID_OPCODE" in why else stops


def _is_described(kind: int, why: str) -> bool:
    if "INVALID_OPCODE" in why:
        return kind == UNDEFINED
    if "unconditional direct" in why:
        return kind in _ALWAYS_TAKEN
    return kind in (_INDIRECT if "unconditional indirect" in why else (*_ALWAYS_TAKEN, *_INDIRECT))
