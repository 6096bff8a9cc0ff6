"""Repairs damaged places of a file in memory: the ways to mend it, in the order in which damage spreads.

A relocation gives a record its value, a record leads to a site, and the marker counts sites. So damage of an earlier
kind shows up as findings of all later ones. Mends are written into a private copy only, to see which findings vanish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, Literal, NamedTuple

import numpy as np

from prologue.arrays import I64, U64, Bool, among
from prologue.errors import InputError, RefusedError
from prologue.insn import a64
from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.kernel.linked import PlacedWords
from prologue.kernel.marker import BUILT, Marker
from prologue.kernel.module import Module
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


def _relocation_types(subject: Subject) -> Iterator[Damage]:
    """Find relocations of records that have another type than the loader applies."""
    from prologue.elf.dynrelocs import R_AARCH64_ABS64, R_AARCH64_RELATIVE, rela_in

    binary, records = subject.binary, subject.binary.records
    if records is None or not records.bad_types:
        return
    bad = {vaddr for vaddr, _ in records.bad_types}
    if isinstance(binary, Module):
        relocations, right = binary.relocations, R_AARCH64_ABS64
        known = zip(relocations.places.tolist(), relocations.types.tolist(), relocations.homes.tolist(), strict=True)
    else:
        low = int(records.vaddrs[0])
        entries, right = rela_in(binary.image, low, low + 8 * len(records)), R_AARCH64_RELATIVE
        known = zip(entries.targets.tolist(), entries.types.tolist(), entries.addend_offsets.tolist(), strict=True)
    for place, kind, home in known:
        if place in bad and kind != right:
            yield Damage(frozenset({place}), (_edit(home - 8, 4, right),))  # r_info, whose low half is the type


def _relocation_places(subject: Subject) -> Iterator[Damage]:
    """Find RELA entries that name another record than their place between two others says."""
    from prologue.elf.dynrelocs import rela_in

    binary, records = subject.binary, subject.binary.records
    if records is None or isinstance(binary, Module) or not (records.rela_count > 1).any():
        return
    low = int(records.vaddrs[0])
    entries = rela_in(binary.image, low, low + 8 * len(records))
    targets = entries.targets.tolist()
    bare = records.vaddrs[(records.rela_count == 0) & ~records.relr].tolist()
    for k in np.flatnonzero(among(entries.targets, records.vaddrs[records.rela_count > 1])).tolist():
        before, after = targets[k - 1] if k else 0, targets[k + 1] if k + 1 < len(targets) else 1 << 64
        right = [place for place in bare if before < place < after]
        if len(right) == 1:
            places = frozenset({targets[k], right[0]})
            home = int(entries.addend_offsets[k]) - 16  # r_offset
            yield Damage(
                places, (_edit(home, 8, right[0]),), f"the other one stands where {right[0]:#x} would be in order"
            )


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
    first = np.zeros(len(records), np.uint64)
    first[sites.record] = sites.first
    strayed = _match_strayed(subject, records, sites, first)
    for index, pair in strayed.items():
        value = _value_for(binary, pair, sites, moved=moved)
        places = {int(records.vaddrs[index]), int(first[index]), int(records.values[index]), pair}
        slot, where = (binary.symbols.locate(at) for at in (int(records.vaddrs[index]), pair))
        note = f"the record at {slot} was changed: no record leads to {where}, where it would be in order"
        for damage in _record_damage(binary, records, index, value, places | _around(sites, index)):
            yield damage._replace(note=note, fix=_CHANGED_RECORD)
    for k in np.flatnonzero(sites.moved != moved).tolist():
        index = int(sites.record[k])
        if index in strayed:
            continue
        value = int(sites.second[k] if moved else sites.unmoved_values()[k])
        yield from _record_damage(binary, records, index, value, {int(records.vaddrs[index]), int(sites.first[k])})


def _around(sites: Sites, record: int) -> set[int]:
    """Return the addresses at which rules report the site of a record."""
    at = np.flatnonzero(sites.record == record)
    return {int(vaddr) for k in at for vaddr in (sites.entry[k], sites.first[k] - np.uint64(4))}


def _record_damage(binary: Binary, records: Records, index: int, value: int, places: set[int]) -> Iterator[Damage]:
    home = int(records.homes[index])
    if home < 0:
        return
    width: Literal[4, 8] = 4 if records.form == "offsets" else 8
    held = int(binary.image.words_at(np.array([home], np.int64), width)[0])
    # A module's addend counts from a symbol, an offset from _text; otherwise the value itself stands there.
    right = (held + value - int(records.values[index])) % (1 << 8 * width)
    yield Damage(frozenset(places), (_edit(home, width, right),))


def _match_strayed(subject: Subject, records: Records, sites: Sites, first: U64) -> dict[int, int]:
    """Match each strayed record (index) with its pair: the only one without a record between its neighbours' pairs.

    Tables follow the order of functions: the linker writes both in the order of objects, and sorttable sorts.
    """
    from prologue.rules.pl206_pair_without_record import check as pairs_without_record

    # Of a table that was lost nothing strayed: PL112 is the root.
    subject = replace(subject, codes=frozenset({"PL112"}))
    lost = sorted(hit.vaddr for hit in pairs_without_record(subject))
    if not lost:
        return {}
    bad = _doubtful(subject.binary, records, sites)
    ordered = _in_order(bad, first, lost)
    if len(ordered) < len(lost):  # one at a function or at a pair is doubtful only if nothing else is
        bad[sites.record[~(_at_function(subject.binary, sites) & _at_pair(subject.binary, sites))]] = True
        ordered = _in_order(bad, first, lost)
    return ordered


def _in_order(bad: Bool, first: U64, lost: list[int]) -> dict[int, int]:
    """Match doubtful records with pairs by their neighbours.

    In a table that is not sorted only functions of one section of an object follow each other: a pair belongs between
    two records if no other record's pair comes between it and that of one of the two.
    """
    good = np.flatnonzero(~bad & (first != 0))
    ascending = np.sort(first[good])
    gaps = dict(zip(lost, np.searchsorted(ascending, np.array(lost, np.uint64)).tolist(), strict=True))
    homes: dict[int, int] = {}
    for index in np.flatnonzero(bad).tolist():
        at = int(np.searchsorted(good, index))
        beside = {int(np.searchsorted(ascending, first[good[at - 1]])) + 1 if at else 0}
        beside.add(int(np.searchsorted(ascending, first[good[at]])) if at < len(good) else len(good))
        between = [pair for pair, gap in gaps.items() if gap in beside and pair not in homes.values()]
        rivals = bad[(int(good[at - 1]) + 1 if at else 0) : (int(good[at]) if at < len(good) else len(bad))]
        if between and (len(between) == 1 or len(between) == int(rivals.sum())):
            homes[index] = between[0]
    return homes


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
    Mender(("PL103",), _relocation_types),
    Mender(("PL102",), _relocation_places),
    Mender(("PL202", "PL110", "PL402"), _interrupted, finishes=True),
    Mender(("PL208", "PL110"), _other_layouts),
    Mender(("PL105", "PL108", "PL106", "PL110", "PL201", "PL204", "PL203", "PL107", "PL206"), _records),
    Mender(("PL201", "PL203", "PL204", "PL202"), _words),
    Mender(("PL402",), _marker),
)
