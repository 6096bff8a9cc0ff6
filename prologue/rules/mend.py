"""Repairs damaged places of a file in memory: the ways to mend it, in the order in which damage spreads.

A record leads to a site, and the marker counts sites. So damage of an earlier kind shows up as findings of all later
ones. Mends are written into a private copy only, to see which findings vanish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, Literal, NamedTuple

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.errors import InputError, RefusedError
from prologue.insn import a64
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.kernel.linked import PlacedWords
from prologue.kernel.marker import BUILT, Marker
from prologue.kernel.records import Records
from prologue.kernel.sites import Sites, replaced_before
from prologue.rules.base import Subject
from prologue.rules.pl203_site_after_bti_broken import replaced_by_first

_CHANGED_RECORD: Final = "find what changed the record or its relocation after the link, and link again"
_OTHER_FLAGS_OR_RECORD: Final = (
    "compile that object with the flags of the kernel (CC_FLAGS_FTRACE in arch/arm64/Makefile); if it was, "
    + _CHANGED_RECORD
)


class Damage(NamedTuple):
    """A damaged place: addresses at which its findings stand, and what mends it."""

    places: frozenset[int]
    edits: tuple[PlacedWords, ...]
    note: str = ""  # what the finding at the place does not say by itself
    fix: str = ""  # the advice, if the rule's own is about another cause


def _edit(offset: int, width: Literal[4, 8], *words: int) -> PlacedWords:
    """Put words one after the other."""
    return PlacedWords(offset + width * np.arange(len(words), dtype=np.int64), np.array(words, np.uint64), width)


class Mender(NamedTuple):
    """Finds damage of one kind; ``codes`` are the rules that name it best, in order of preference."""

    codes: tuple[str, ...]
    find: Callable[[Subject], Iterator[Damage]]
    finishes: bool = False  # an interrupted run, from which only rules follow that are open while unfinished


def _interrupted(subject: Subject) -> Iterator[Damage]:
    """Find the rest of the plan, in a file of an interrupted run."""
    from prologue.plan.build import build_plan

    binary = subject.binary
    if binary.state != "unfinished" or binary.sites is None:
        return
    try:
        plan = build_plan(binary, binary.contract if isinstance(binary, Kernel) else "native")
    except (InputError, RefusedError):
        return
    edits = tuple(PlacedWords(stage.offsets, stage.new, stage.width) for stage in plan.stages)
    marker = {binary.marker.vaddr} if isinstance(binary, Kernel) and binary.marker else set()
    yield Damage(frozenset({*binary.sites.first.tolist(), *marker}), edits)


def _other_layouts(subject: Subject) -> Iterator[Damage]:
    """Find records of another layout, or moved ones that look like that: each is led to its function's pair."""
    binary, sites = subject.binary, subject.sites
    records, others = binary.records, binary.other_layouts
    if records is None or not len(others.places):
        return
    moved = 2 * int(sites.moved.sum()) > len(sites)
    around = binary.text.words_around(others.entry, range(3))
    bti = around[0] & a64.BTI_MASK == a64.BTI
    word0, word1 = np.where(bti, around[1], around[0]), np.where(bti, around[2], around[1])
    fits = ((word0 == a64.NOP) | (word0 == a64.MOV_X9_X30)) & (word1 == a64.NOP)
    fits |= others.after == 0  # a record may also lead to the NOPs that align a function
    pairs = (others.entry + np.where(bti, np.uint64(4), np.uint64(0))).tolist()
    slots = binary.symbols.locate_all(records.vaddrs[sites.record[others.places]].tolist())
    rows = zip(others.places.tolist(), others.entry.tolist(), pairs, fits.tolist(), slots, strict=True)
    for k, entry, pair, looks_right, slot in rows:
        index = int(sites.record[k])
        value = _value_for(binary, pair, sites, moved=moved)
        note = f"or the record at {slot} was changed, and leads to words that look like slots" if looks_right else ""
        fix = _OTHER_FLAGS_OR_RECORD if looks_right else ""
        places = {entry, int(sites.first[k]), int(records.vaddrs[index]), int(records.values[index])}
        for damage in _record_damage(binary, records, index, value, places):
            yield damage._replace(note=note, fix=fix)


def _records(subject: Subject) -> Iterator[Damage]:
    """Find records that lead elsewhere than to their function's pair."""
    binary, records, sites = subject.binary, subject.binary.records, subject.sites
    if records is None or not len(sites):
        return
    moved = 2 * int(sites.moved.sum()) > len(sites)
    strayed, pair = _strayed(subject, records, sites) or (-1, 0)
    if strayed >= 0:
        slot, where = (binary.symbols.locate(at) for at in (int(records.vaddrs[strayed]), pair))
        note = f"the record at {slot} was changed: no record leads to {where}"
        places = {int(records.vaddrs[strayed]), int(records.values[strayed]), pair}
        for site in np.flatnonzero(sites.record == strayed).tolist():  # rules report it at these
            places |= {int(sites.first[site]), int(sites.entry[site]), int(sites.first[site] - np.uint64(4))}
        for damage in _record_damage(binary, records, strayed, _value_for(binary, pair, sites, moved=moved), places):
            yield damage._replace(note=note, fix=_CHANGED_RECORD)
    for k in np.flatnonzero((sites.moved != moved) & (sites.record != strayed)).tolist():
        index = int(sites.record[k])
        value = int(sites.second[k] if moved else sites.unmoved_values()[k])
        yield from _record_damage(binary, records, index, value, {int(records.vaddrs[index]), int(sites.first[k])})


def _record_damage(binary: Binary, records: Records, index: int, value: int, places: set[int]) -> Iterator[Damage]:
    home = int(records.homes[index])
    if home < 0:
        return
    width: Literal[4, 8] = 4 if records.form == "offsets" else 8
    held = int(binary.image.words_at(np.array([home], np.int64), width)[0])
    # A module's addend counts from a symbol, an offset from _text; otherwise the value itself stands there.
    right = (held + value - int(records.values[index])) % (1 << 8 * width)
    yield Damage(frozenset(places), (_edit(home, width, right),))


def _strayed(subject: Subject, records: Records, sites: Sites) -> tuple[int, int] | None:
    """Find the record (its index) that may have strayed, the nearest if many may, and the one pair without a record."""
    from prologue.rules.pl206_pair_without_record import check as pairs_without_record

    # Of a table that was lost nothing strayed: PL112 is the root.
    lost = [hit.vaddr for hit in pairs_without_record(replace(subject, codes=frozenset({"PL112"})))]
    if len(lost) != 1:
        return None
    bad = _doubtful(subject.binary, records, sites)
    if not bad.any():  # one at a function or at a pair is doubtful only if nothing else is
        bad[sites.record[~(_at_function(subject.binary, sites) & _at_pair(subject.binary, sites))]] = True
    if not bad.any():
        return None
    return min(np.flatnonzero(bad).tolist(), key=lambda index: abs(int(records.values[index]) - lost[0])), lost[0]


def _doubtful(binary: Binary, records: Records, sites: Sites) -> Bool:
    """Return records that may have strayed: not in text, at no function and no pair, zero among others, or doubled."""
    bad = records.nonzero & ~binary.text.in_text(records.values)
    nonzero = np.flatnonzero(records.nonzero)
    if len(nonzero):  # zeros before all others are what scripts/sorttable leaves
        bad[nonzero[0] :] |= ~records.nonzero[nonzero[0] :]
    bad[sites.record[~_at_function(binary, sites) & ~_at_pair(binary, sites)]] = True
    bad[sites.record[_repeated(sites.first)]] = True
    return bad


def _at_function(binary: Binary, sites: Sites) -> Bool:
    """Return the sites at which a function begins; overridden weak functions have lost their symbols."""
    return binary.symbols.is_function_start(sites.entry) | replaced_before(binary.symbols, sites)


def _at_pair(binary: Binary, sites: Sites) -> Bool:
    """Return the sites that are a pair, or one whose landing pad was overwritten."""
    return sites.has_nop | sites.has_mov | replaced_by_first(binary, sites)


def _repeated(first: U64) -> I64:
    """Return the sites that come twice, if they break the order of the table."""
    _, inverse, counts = np.unique(first, return_inverse=True, return_counts=True)
    twice = np.flatnonzero(counts[inverse] > 1)
    out = [
        k
        for k in twice.tolist()
        if (k and first[k] <= first[k - 1]) or (k + 1 < len(first) and first[k] >= first[k + 1])
    ]
    return np.array(out, np.int64)


def _value_for(binary: Binary, pair: int, sites: Sites, *, moved: bool) -> int:
    """Return the value of a pair's record."""
    if moved:
        return pair + 4
    if sites.layout == "2":
        return pair
    before = int(binary.text.words(np.array([pair - 4], np.uint64))[0])
    return pair - (12 if before & a64.BTI_MASK == a64.BTI else 8)


def _words(subject: Subject) -> Iterator[Damage]:
    """Find damaged words of sites: both slots, the landing pad, the literal."""
    binary, sites = subject.binary, subject.sites
    if not len(sites):
        return
    processed = 2 * int((sites.word0 == a64.MOV_X9_X30).sum()) > len(sites)
    right = a64.MOV_X9_X30 if processed else a64.NOP
    wrong = (sites.word0 != right) | (sites.word1 != a64.NOP)
    pads = 2 * int(sites.bti.sum()) > len(sites)
    no_pad = ~sites.bti & binary.symbols.is_function_start(sites.first - np.uint64(4)) if pads else np.zeros_like(wrong)
    by_first = replaced_by_first(binary, sites)
    first = sites.first + np.where(by_first, np.uint64(4), np.uint64(0))
    no_pad |= by_first | replaced_before(binary.symbols, sites)
    entry = first - np.where(sites.bti | no_pad, np.uint64(4), np.uint64(0))
    literal = entry - np.uint64(8)
    broken = np.zeros_like(wrong)
    if sites.layout == "4,2":
        low, high = binary.text.words_around(literal, (0, 1)).values()
        broken = (low != a64.NOP) | (high != a64.NOP)
    for k in np.flatnonzero(wrong | no_pad | broken).tolist():
        at = int(first[k])
        words = {at: right, at + 4: a64.NOP}
        words |= {at - 4: a64.BTI_C} if no_pad[k] else {}
        words |= {int(literal[k]): a64.NOP, int(literal[k]) + 4: a64.NOP} if broken[k] else {}
        offsets = binary.image.offsets(np.array(list(words), np.uint64))
        edit = PlacedWords(offsets[offsets >= 0], np.array(list(words.values()), np.uint64)[offsets >= 0], 4)
        yield Damage(frozenset({*words, int(entry[k]), at - 4}), (edit,))


def _marker(subject: Subject) -> Iterator[Damage]:
    """Find a wrong flag or count of the marker."""
    binary, sites = subject.binary, subject.binary.sites
    marker = binary.marker if isinstance(binary, Kernel) else None
    if marker is not None and marker.version > 1 and not marker.writing:
        yield from _second_marker(subject, marker)
        return
    if marker is None or sites is None:
        return
    done = bool(len(sites)) and bool((sites.has_mov & sites.moved).all())
    flags, count = (BUILT, len(sites)) if done else (0, 0)
    edit = _edit(marker.offset + 8, 8, marker.state_word(flags), count)
    yield Damage(frozenset({marker.vaddr}), (edit,))


def _second_marker(subject: Subject, marker: Marker) -> Iterator[Damage]:
    """Find a wrong count, as the table has it; or a wrong flag, if the rest says that it was set, or was not."""
    from prologue.rules.pl402_marker_disagrees import listed

    written = marker.sites or marker.encoding or marker.first or marker.extent
    built = bool(marker.sites) or (marker.processed and bool(written or subject.sites.has_mov.any()))
    count = listed(subject.kernel, marker) if marker.processed and built else marker.sites
    edit = _edit(marker.offset + 8, 8, marker.state_word(BUILT if built else 0), count)
    yield Damage(frozenset({marker.vaddr}), (edit,))


MENDERS: Final = (
    Mender(("PL202", "PL110", "PL402"), _interrupted, finishes=True),
    Mender(("PL208", "PL110"), _other_layouts),
    Mender(("PL105", "PL108", "PL106", "PL110", "PL201", "PL204", "PL203", "PL107", "PL206"), _records),
    Mender(("PL201", "PL203", "PL204", "PL202"), _words),
    Mender(("PL402",), _marker),
)
