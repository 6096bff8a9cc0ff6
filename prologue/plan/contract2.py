"""Plans version 2 of the marker: sites, the record table, relocations, and the marker (kernel-contract.md).

Made from a kernel as it was linked. Of one that is processed already, ``prologue.kernel.linked`` gives that back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from prologue.arrays import U64
from prologue.elf.dynrelocs import R_AARCH64_RELATIVE, RELA, relocates, relocation_sections, relr_section
from prologue.elf.relr import chains_with, restored, without
from prologue.elf.sections import Section
from prologue.errors import RefusedError
from prologue.kernel.kernel import Kernel
from prologue.kernel.marker import WRITING, Marker
from prologue.kernel.offset_table import BASE, ENCODINGS, SlotRanks, pack_places
from prologue.kernel.records import Bounds, Records
from prologue.kernel.sites import Sites
from prologue.plan.edits import Edits, edits_at, marker_flag, marker_word


class RemovedRelocations(NamedTuple):
    """Edits that take relocations out; ``first`` and ``extent`` are for the marker, 0 if it cannot restore them."""

    stages: tuple[Edits, ...] = ()
    first: int = 0
    extent: int = 0


def later_stages(kernel: Kernel, sites: Sites) -> tuple[Edits, ...]:
    """Plan all that comes after the sites.

    Raises:
        RefusedError: records that this contract has no place for.

    """
    marker, bounds, records = kernel.marker, kernel.bounds, kernel.records
    assert marker is not None and bounds is not None and records is not None  # noqa: S101,PT018 - sites have all three
    if len(sites) != int(records.nonzero.sum()):
        raise RefusedError("some records lead to no site: see `prologue verify`", path=kernel.path)
    if marker.offsets:
        table = _offset_table(kernel, bounds, records, sites)
        taken = RemovedRelocations()
        if records.encoding == "RELR":
            taken = _without_relr(kernel, bounds, records)
        elif records.rela.any():
            taken = _without_rela(kernel, bounds, records)
    else:
        table, taken = _sorted_table(kernel, records, sites)
    return (*table, *taken.stages, *_marker_edits(marker, len(sites), ENCODINGS.index(records.encoding), taken))


def guard_of(marker: Marker) -> int:
    """Return the version and flags of a file that is being written."""
    return marker.state_word(WRITING)


def _offset_table(kernel: Kernel, bounds: Bounds, records: Records, sites: Sites) -> tuple[Edits, ...]:
    """Plan the offsets of the second slots, and where each record was."""
    offsets = np.sort(sites.second) - np.uint64(kernel.symbols.require(BASE).vaddr)
    if (offsets >> np.uint64(32)).any():
        raise RefusedError(
            "has text more than 4 GB from _text, or before it: 32-bit offsets do not reach it", path=kernel.path
        )
    words = np.zeros(2 * len(records), np.uint32)
    words[: len(offsets)] = offsets
    words[len(records) :] = pack_places(SlotRanks(_ranks(records, sites), records.rela | records.relr))
    homes = bounds.file_offset + np.arange(len(records), dtype=np.int64) * 8
    old_new = (records.slots.astype(np.uint64), words.view("<u8").astype(np.uint64))
    reason = f"records as offsets from _text ({records.encoding})"
    return (edits_at("record", reason, (records.vaddrs, homes), old_new),)


def _ranks(records: Records, sites: Sites) -> np.ndarray:
    """Return for each slot the number of its record in ascending order; -1 for zero records."""
    ranks = np.full(len(records), -1, np.int64)
    ranks[sites.record[np.argsort(sites.second, kind="stable")]] = np.arange(len(sites))
    return ranks


def _without_rela(kernel: Kernel, bounds: Bounds, records: Records) -> RemovedRelocations:
    """Move up what comes after the records' entries; zeros take the place that becomes free."""
    sections = relocation_sections(kernel.image, "RELA")
    stages, runs = [], list[tuple[Section, int, int]]()
    for section in sections:
        table = kernel.image.view(section, RELA)
        of_records = (table["offset"] >= bounds.start) & (table["offset"] < bounds.stop)
        of_records[of_records] = relocates(table[of_records])  # a NONE relocates nothing
        rows = np.flatnonzero(of_records)
        if not len(rows):
            continue
        new = np.zeros(len(table), RELA)
        new[: len(table) - len(rows)] = table[~of_records]
        stages.append(_changed(section, table.view("<u8"), new.view("<u8"), "relocations of records taken out (RELA)"))
        taken = table[rows]
        ascending = bool((taken["offset"][1:] > taken["offset"][:-1]).all())
        if rows[-1] - rows[0] + 1 == len(rows) and ascending and bool((taken["info"] == R_AARCH64_RELATIVE).all()):
            runs.append((section, int(rows[0]), len(rows)))
    filled = records.slots == records.values if records.encoding == "RELA applied" else records.slots == 0
    if len(stages) == 1 and runs and runs[0][0] is sections[0] and bool(filled[records.rela].all()):
        return RemovedRelocations(tuple(stages), runs[0][1], runs[0][2])
    return RemovedRelocations(tuple(stages))


def _without_relr(kernel: Kernel, bounds: Bounds, records: Records) -> RemovedRelocations:
    """Encode the chains anew that hold records."""
    section = relr_section(kernel.image)
    assert section is not None  # noqa: S101 - the encoding is RELR
    words = kernel.image.view(section, "<u8")
    after = words.copy()
    parts = chains_with(words, bounds.start, bounds.stop)
    for part in parts:
        chain = without(words, part, bounds.start, bounds.stop)
        if chain is None:
            raise RefusedError(".relr.dyn has no room for its relocations without the records", path=kernel.path)
        after[part.first : part.first + part.size] = chain
    stages = (_changed(section, words, after, "relocations of records taken out (RELR)"),)
    if len(parts) != 1:
        return RemovedRelocations(stages)
    (part,) = parts
    slots = np.arange(bounds.start, bounds.stop, 8, dtype=np.uint64)
    again = restored(after, part, slots[records.relr])
    same = again is not None and np.array_equal(again, words[part.first : part.first + part.size])
    return RemovedRelocations(stages, part.first, part.size) if same else RemovedRelocations(stages)


def _changed(section: Section, old: U64, new: U64, reason: str) -> Edits:
    """Return the words of a relocation table that change."""
    index = np.flatnonzero(old != new)
    places = np.uint64(section.addr) + index.astype(np.uint64) * np.uint64(8), section.offset + index * 8
    return edits_at("relocation", reason, places, (old[index].astype(np.uint64), new[index].astype(np.uint64)))


def _sorted_table(kernel: Kernel, records: Records, sites: Sites) -> tuple[tuple[Edits, ...], RemovedRelocations]:
    """Plan the plain form: second slots ascending, then zero records. Relocations stay.

    The order as linked stays in slots that relocation overwrites: as the addresses that are there, or as numbers.
    """
    relocated = records.rela | records.relr
    if relocated.any() and not relocated[: len(sites)].all():
        at = int(np.flatnonzero(~relocated[: len(sites)])[0])
        raise RefusedError(f"record {at} has no relocation: no other record can take its place", path=kernel.path)
    new = np.zeros(len(records), np.uint64)
    new[: len(sites)] = np.sort(sites.second)
    reason = f"records sorted, to the second slots ({records.encoding})"
    stages = [edits_at("record", reason, (records.vaddrs, records.homes), (records.values, new))]
    ranks = _ranks(records, sites)
    in_order = np.array_equal(ranks[: len(sites)], np.arange(len(sites)))
    kept = in_order or (records.encoding == "RELA applied" and bool((records.slots == records.values).all()))
    if not kept and records.encoding == "RELA unapplied" and not records.slots.any() and bool(relocated.all()):
        homes = kernel.image.offsets(records.vaddrs)
        numbers = (ranks + 1).astype(np.uint64)
        stages.append(edits_at("record", "order as linked", (records.vaddrs, homes), (records.slots, numbers)))
        kept = True
    return tuple(stages), RemovedRelocations(extent=len(records) if kept else 0)


def _marker_edits(marker: Marker, sites: int, encoding: int, taken: RemovedRelocations) -> tuple[Edits, ...]:
    """Plan what the marker says, and how to undo it. The flag comes last: with it set, the kernel trusts the rest."""
    rows: tuple[tuple[int, str, int], ...] = (
        (16, "number of sites", sites),
        (24, "encoding as linked, first of what was taken out", encoding | taken.first << 32),
        (32, "how many were taken out", taken.extent),
    )
    return (*(marker_word(marker, at, why, new) for at, why, new in rows), marker_flag(marker))
