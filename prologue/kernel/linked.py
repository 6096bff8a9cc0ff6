"""A processed kernel as it was linked: what version 2 of the marker has written says what stood there before.

The words are put into a private copy, which is then read like any other unprocessed kernel. Whether they are right
shows when that one is planned: the plan must write what the processed file holds.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from prologue.arrays import I64, U64
from prologue.elf.dynrelocs import R_AARCH64_RELATIVE, RELA, relocation_sections, relr_section
from prologue.elf.image import ElfImage, unaligned
from prologue.elf.relr import Part, restored
from prologue.errors import RefusedError
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue.kernel.marker import Marker
from prologue.kernel.offset_table import ENCODINGS, SlotRanks, halves, unpack_places
from prologue.kernel.records import Bounds, Records
from prologue.kernel.sites import Sites


class PlacedWords(NamedTuple):
    """Words for places of the file, of 4 or 8 bytes; arrays of shape (n,)."""

    offsets: I64
    words: U64
    width: int = 8


def with_words(kernel: Kernel, words: Iterable[PlacedWords]) -> Kernel:
    """Read the kernel that the file would be with these words."""
    result = Kernel(image_with(kernel.image, words))
    result.symbols = kernel.symbols  # nothing writes symbols, and finding them takes a while
    return result


def image_with(image: ElfImage, words: Iterable[PlacedWords]) -> ElfImage:
    """Make the file that this one would be with these words, in memory."""
    content = private_copy(image)
    for edit in words:
        unaligned(content, edit.width)[edit.offsets] = edit.words
    return ElfImage(image.path, content)


def private_copy(image: ElfImage) -> mmap.mmap:
    """Copy a file's bytes, to be changed: unchanged pages stay shared with the file itself, which may be big."""
    held = image.content
    if image.is_whole_file and image.path.stat().st_size == len(held):
        with image.path.open("rb") as stream:
            copy = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        if copy[:4096] == held[:4096]:
            return copy
    copy = mmap.mmap(-1, len(held))
    with memoryview(held) as content:  # a slice of a mapping would be another copy
        copy[:] = content
    return copy


def as_linked(kernel: Kernel) -> Kernel:
    """Undo the processing of a kernel whose marker has version 2, in memory; an unprocessed one is returned as it is.

    Raises:
        RefusedError: this file alone does not say what stood there.

    """
    if kernel.marker is None or kernel.marker.version == 1 or not kernel.marker.processed:
        return kernel
    return with_words(kernel, _words_before(kernel, kernel.marker))


def is_by_sorttable(kernel: Kernel, marker: Marker) -> bool:
    """Return whether scripts/sorttable processed it: it sets no fields for tools, which are 0 in static links only."""
    return bool(kernel.relocates_itself) and not (marker.encoding or marker.first or marker.extent)


def strange_fields(kernel: Kernel, marker: Marker) -> str:
    """Say why the marker's fields for tools cannot be those of this kernel, if it is processed; empty if they can."""
    if marker.encoding >= len(ENCODINGS):
        return f"its marker names the encoding {marker.encoding}, which is not known"
    encoding = ENCODINGS[marker.encoding]
    if encoding == "static" and kernel.relocates_itself:
        return f"its marker names a static link, but {kernel.relocates_itself[0]}"
    kind = encoding.split()[0]
    if encoding != "static" and not relocation_sections(kernel.image, kind):
        return f"its marker names the encoding {encoding}, but there is no {kind} table"
    if marker.first and not marker.extent:
        return f"its marker says that no relocations were taken out, and that the first was {marker.first:,}"
    return ""


def _words_before(kernel: Kernel, marker: Marker) -> Iterator[PlacedWords]:
    bounds, records, sites = kernel.bounds, kernel.records, kernel.sites
    if bounds is None or records is None or sites is None or len(sites) != marker.sites:
        raise _lost(kernel, "its marker counts other sites than there are")
    if is_by_sorttable(kernel, marker):
        raise RefusedError(
            "scripts/sorttable processed it, and keeps nothing of what was linked: turn the option off and link again",
            path=kernel.path,
        )
    if why := strange_fields(kernel, marker):
        raise _lost(kernel, why)
    yield PlacedWords(kernel.image.offsets(sites.first), np.full(len(sites), a64.NOP, np.uint64), 4)
    if marker.offsets:
        yield from _offset_table(kernel, marker, bounds, sites)
    else:
        yield from _sorted_table(kernel, marker, records, sites)
    offsets = marker.offset + np.array([8, 16, 24, 32], np.int64)
    yield PlacedWords(offsets, np.array([marker.state_word(0), 0, 0, marker.reserved << 32], np.uint64))


def _offset_table(kernel: Kernel, marker: Marker, bounds: Bounds, sites: Sites) -> Iterator[PlacedWords]:
    encoding = ENCODINGS[marker.encoding]
    places = unpack_places(halves(kernel.image, bounds)[1], len(sites), relocated=encoding != "static")
    if places is None:
        raise _lost(kernel, "the second half of its record table says of no slot which record it had")
    values = _values(places, sites)
    homes = bounds.file_offset + np.arange(len(values), dtype=np.int64) * 8
    yield PlacedWords(homes, np.zeros_like(values) if encoding == "RELA unapplied" else values)
    targets = np.uint64(bounds.start) + np.flatnonzero(places.relocated).astype(np.uint64) * np.uint64(8)
    if encoding == "RELR":
        yield _relr_before(kernel, marker, targets)
    elif encoding != "static":
        yield _rela_before(kernel, marker, targets, values[places.relocated])


def _values(places: SlotRanks, sites: Sites) -> U64:
    """Return the value that the compiler put into each slot."""
    values = np.zeros(len(places.rank), np.uint64)
    live = places.rank >= 0
    values[live] = sites.unmoved_values()[places.rank[live]]
    return values


def _rela_before(kernel: Kernel, marker: Marker, targets: U64, values: U64) -> PlacedWords:
    """Move down what was moved up, and put the records' entries between."""
    sections = relocation_sections(kernel.image, "RELA")
    if not sections or not marker.extent:
        raise _lost(kernel, "its relocations were not one run of .rela.dyn")
    table = kernel.image.view(sections[0], RELA)
    first, count, kept = marker.first, marker.extent, len(table) - marker.extent
    if count != len(targets) or first > kept or bool(table[max(kept, 0) :].view("<u8").any()):
        raise _lost(kernel, f"its marker says that {count:,} relocations were taken out at {first:,}, which cannot be")
    before = np.zeros(len(table), RELA)
    before[:first], before[first + count :] = table[:first], table[first:kept]
    taken = before[first : first + count]
    taken["offset"], taken["info"], taken["addend"] = targets, R_AARCH64_RELATIVE, values.view("<i8")
    return PlacedWords(sections[0].offset + np.arange(3 * len(table), dtype=np.int64) * 8, before.view("<u8"))


def _relr_before(kernel: Kernel, marker: Marker, targets: U64) -> PlacedWords:
    section = relr_section(kernel.image)
    if section is None or not marker.extent:
        raise _lost(kernel, "its relocations were not one chain of .relr.dyn")
    words, part = kernel.image.view(section, "<u8"), Part(marker.first, marker.extent)
    chain = restored(words, part, targets) if part.first + part.size <= len(words) else None
    if chain is None:
        raise _lost(kernel, f"its marker says that relocations were taken out of {part.size:,} words, which cannot be")
    return PlacedWords(section.offset + (part.first + np.arange(part.size, dtype=np.int64)) * 8, chain)


def _sorted_table(kernel: Kernel, marker: Marker, records: Records, sites: Sites) -> Iterator[PlacedWords]:
    """Restore a sorted table: slots that relocation overwrites may hold addresses as linked, or numbers."""
    if not marker.extent:
        raise _lost(kernel, "its records were sorted")
    values = np.zeros(len(records), np.uint64)
    values[: len(sites)] = sites.unmoved_values()
    encoding = ENCODINGS[marker.encoding]
    if encoding == "RELA applied":
        values = records.slots
    elif encoding == "RELA unapplied" and records.slots.any():
        places = unpack_places(records.slots.astype(np.uint32), len(sites), relocated=True)
        if places is None or bool((records.slots >> np.uint64(32)).any()):
            raise _lost(kernel, "the slots of its record table do not say which record they had")
        values = _values(places, sites)
        yield PlacedWords(kernel.image.offsets(records.vaddrs), np.zeros_like(values))
    yield PlacedWords(records.homes, values)


def _lost(kernel: Kernel, why: str) -> RefusedError:
    return RefusedError(
        f"this file alone does not say what was there before it was processed: {why}; "
        "give the plan that --save-plan wrote (--reverse PLAN)",
        path=kernel.path,
    )
