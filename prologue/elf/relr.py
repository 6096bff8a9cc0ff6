"""RELR tables: decoded, and encoded again without the relocations of a range.

An even word is an address to relocate, an odd word is a bitmap over the 63 words that follow the last address or
bitmap (gABI proposal "Relative relocation: DT_RELR"). A *chain* is an address and its bitmaps. Its addresses ascend by
multiples of 8 from the first one, which itself need not be one: Debian's 7.2.13 has 330 such.

A bitmap without bits, the word 1, relocates nothing. Linkers fill tables with it, and so does this module: a table
never changes its size, and a chain never the place where it begins.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U64, Bool

SPAN: Final = 63 * 8  # bytes that one bitmap is for
FILLER: Final = 1
_WORD: Final = np.uint64(8)
_SPAN: Final = np.uint64(SPAN)


class Relr(NamedTuple):
    """A table taken apart: ``bitmaps[k]`` is over the words from ``bases[k]`` on."""

    addresses: U64
    bases: U64
    bitmaps: U64


class Part(NamedTuple):
    """Consecutive words of a table: a chain."""

    first: int
    size: int


def parse_relr(words: U64) -> Relr:
    """Find what each word of a table means; bitmaps before the first address are left out."""
    is_bitmap = words & np.uint64(1) == 1
    addresses = np.flatnonzero(~is_bitmap)
    begin = int(addresses[0]) if len(addresses) else len(words)
    words, is_bitmap = words[begin:], is_bitmap[begin:]
    index = np.arange(len(words))
    last_address = np.maximum.accumulate(np.where(is_bitmap, 0, index)) if len(words) else index
    # The k-th bitmap after an address starts 8 bytes after it plus 63 words for each bitmap before.
    bases = words[last_address] + _WORD + ((index - last_address - 1) * SPAN).astype(np.uint64)
    return Relr(words[~is_bitmap], bases[is_bitmap], words[is_bitmap])


def covered(bases: U64, bitmaps: U64) -> U64:
    """Return the addresses of the words whose bits are set; bit 0 says only that it is a bitmap."""
    bits = np.unpackbits(bitmaps.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")[:, 1:]
    row, bit = np.nonzero(bits)
    places: U64 = bases[row] + bit.astype(np.uint64) * _WORD
    return places


def decode(words: U64) -> U64:
    """Return every address that the words relocate: those of address words first, then those of bitmaps."""
    table = parse_relr(words)
    return np.concatenate([table.addresses, covered(table.bases, table.bitmaps)])


def encode(addresses: U64) -> U64:
    """Encode ascending addresses, multiples of eight from each other, in as few words as can be.

    Greedily: a chain goes on as long as none of its bitmaps would be empty.
    """
    if not len(addresses):
        return np.zeros(0, np.uint64)
    # Only after so long a gap can a bitmap be empty.
    gaps = np.flatnonzero(np.diff(addresses) > _SPAN) + 1
    start = 0
    starts = [0]
    for k in gaps.tolist():
        base = int(addresses[start]) + 8
        after = (int(addresses[k]) - base) // SPAN
        before = (int(addresses[k - 1]) - base) // SPAN  # -1 for the address word itself
        if after > before + 1:
            starts.append(k)
            start = k
    chain = np.zeros(len(addresses), np.int64)
    chain[starts[1:]] = 1
    chain = np.cumsum(chain)
    heads = addresses[starts]
    inside = np.ones(len(addresses), np.bool_)
    inside[starts] = False
    distance = (addresses[inside] - heads[chain[inside]] - _WORD) // _WORD
    row = (distance // np.uint64(63)).astype(np.int64)
    bitmaps = np.zeros(len(starts), np.int64)  # of each chain
    np.maximum.at(bitmaps, chain[inside], row + 1)
    places = np.cumsum(bitmaps + 1) - (bitmaps + 1)
    words = np.ones(int((bitmaps + 1).sum()), np.uint64)
    words[places] = heads
    np.bitwise_or.at(words, places[chain[inside]] + 1 + row, np.uint64(1) << (distance % np.uint64(63) + np.uint64(1)))
    return words


def chains_with(words: U64, start: int, stop: int) -> list[Part]:
    """Find the chains that relocate an address in ``[start, stop)``."""
    heads = np.flatnonzero(words & np.uint64(1) == 0)
    ends = np.append(heads[1:], len(words))
    # A chain reaches from its address to the end of its last bitmap.
    reach = words[heads] + _WORD + ((ends - heads - 1) * SPAN).astype(np.uint64)
    near = np.flatnonzero((words[heads] < np.uint64(stop)) & (reach > np.uint64(start)))
    parts = [Part(int(heads[k]), int(ends[k] - heads[k])) for k in near.tolist()]
    return [part for part in parts if _within(decode(_words_of(words, part)), start, stop).any()]


def without(words: U64, part: Part, start: int, stop: int) -> U64 | None:
    """Encode a chain again without the addresses in ``[start, stop)``; None if it would become longer."""
    places = np.sort(decode(_words_of(words, part)))
    return _filled(encode(places[~_within(places, start, stop)]), part.size)


def restored(words: U64, part: Part, taken: U64) -> U64 | None:
    """Encode the words of a part and addresses that were taken out of it as one chain; None if they cannot be one."""
    places = np.sort(np.concatenate([decode(_words_of(words, part)), taken]))
    steps = np.diff(places)
    if (steps == 0).any() or (steps % _WORD != 0).any():
        return None
    return _filled(encode(places), part.size)


def _words_of(words: U64, part: Part) -> U64:
    return words[part.first : part.first + part.size]


def _within(places: U64, start: int, stop: int) -> Bool:
    inside: Bool = (places >= np.uint64(start)) & (places < np.uint64(stop))
    return inside


def _filled(words: U64, count: int) -> U64 | None:
    if len(words) > count:
        return None
    return np.concatenate([words, np.full(count - len(words), FILLER, np.uint64)])
