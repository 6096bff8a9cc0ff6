"""Records as 32-bit offsets: the table of a processed kernel whose marker has version 2 and the flag OFFSETS.

Of N slots of 8 bytes, as linked, the first half holds the offsets of all second slots from ``_text``, ascending, and
then zeros. The second half says which slot each record had: zeros where the records ascended after zero records, and
every slot was relocated or none; otherwise 32 bits for each slot (``SlotRanks``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I64, U32, U64, Bool
from prologue.elf.dynrelocs import rela_in, relr_in
from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.kernel.marker import Marker
from prologue.kernel.records import Bounds, Encoding, Records

BASE: Final = "_text"  # what the offsets count from
ENCODINGS: Final[tuple[Encoding, ...]] = ("static", "RELA unapplied", "RELA applied", "RELR")  # by the marker's number
RELOCATED_ZERO: Final = 0x80000000  # in the second half: a zero record with a relocation; one without is 0


class SlotRanks(NamedTuple):
    """Ranks of the records in the table's slots, as linked; arrays of shape (slots,)."""

    rank: I64  # number of the record in ascending order; -1 for zero records
    relocated: Bool


def halves(image: ElfImage, bounds: Bounds) -> tuple[U32, U32]:
    """Read the offsets with the zeros after them, and what says where their slots were."""
    count = (bounds.stop - bounds.start) // 8
    words = np.frombuffer(image.read(bounds.file_offset, 8 * count), "<u4")
    return words[:count], words[count:]


def read_offsets(image: ElfImage, symbols: Symbols, bounds: Bounds, marker: Marker) -> Records:
    """Read as many records as the marker counts, or as there is room for."""
    count = min(marker.sites, (bounds.stop - bounds.start) // 8)
    place = np.arange(count, dtype=np.uint64) * np.uint64(4)
    values = np.uint64(symbols.require(BASE).vaddr) + halves(image, bounds)[0][:count].astype(np.uint64)
    unset = np.zeros(count, np.bool_)
    encoding: Encoding = ENCODINGS[marker.encoding] if marker.encoding < len(ENCODINGS) else "none"
    return Records(
        encoding="none" if encoding == "static" and image.is_shared else encoding,  # scripts/sorttable does not say
        vaddrs=np.uint64(bounds.start) + place,
        slots=values,
        values=values,
        homes=bounds.file_offset + place.astype(np.int64),
        rela=unset,
        relr=unset,
        rela_count=np.zeros(count, np.int64),
        form="offsets",
    )


def relocations_of_table(image: ElfImage, bounds: Bounds) -> U64:
    """Return the addresses in the table, or up to 7 bytes before it, that a relocation still writes."""
    rela = rela_in(image, bounds.start, bounds.stop).targets
    return np.concatenate([rela, relr_in(image, bounds.start - 7, bounds.stop)])


def pack_places(places: SlotRanks) -> U32:
    """Make the second half of the table, shape (slots,)."""
    slots, zeros = len(places.rank), int((places.rank < 0).sum())
    ascending = np.concatenate([np.full(zeros, -1), np.arange(slots - zeros)])
    alike = bool(places.relocated.all() or not places.relocated.any())
    if alike and np.array_equal(places.rank, ascending):
        return np.zeros(slots, np.uint32)
    zero = np.where(places.relocated, RELOCATED_ZERO, 0)
    return np.where(places.rank < 0, zero, places.rank + 1).astype(np.uint32)


def unpack_places(half: U32, sites: int, *, relocated: bool) -> SlotRanks | None:
    """Read the second half, with ``relocated`` for what it does not say; None if it is no such half."""
    slots = len(half)
    if not half.any():
        rank = np.concatenate([np.full(slots - sites, -1), np.arange(sites)])
        return SlotRanks(rank, np.full(slots, relocated))
    zero = (half == 0) | (half == RELOCATED_ZERO)
    rank = np.where(zero, -1, half.astype(np.int64) - 1)
    if not np.array_equal(np.sort(rank[~zero]), np.arange(sites)):
        return None
    return SlotRanks(rank, np.where(zero, half == RELOCATED_ZERO, relocated))
