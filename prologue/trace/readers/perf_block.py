"""A block of lines as arrays: lines of one shape, and the fields in their columns."""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import I64, U64, Bool
from prologue.trace.readers.digits import decimal, is_blank, words_view
from prologue.trace.readers.perf_lines import MOST_SECONDS, Shape

BEFORE: Final = b"\n" * 16
"""Padding for a number at the start of a block, which is read with the characters before it."""
AFTER: Final = b"\n" * 1024
"""Padding for a number at the end of a block."""
_TO: Final = int.from_bytes(b" => ", "little")


class TextBlock:
    """A block of lines, between ``BEFORE`` and ``AFTER``."""

    def __init__(self, block: bytes) -> None:
        self._block = block
        letters = np.frombuffer(block, np.uint8)
        self.words = words_view(block)
        self.ends: I64 = np.flatnonzero(letters[: len(block) - len(AFTER)] == 10)[len(BEFORE) - 1 :]
        self.starts: I64 = self.ends[:-1] + 1
        self.ends = self.ends[1:]
        self.count = len(self.starts)
        arrows = np.flatnonzero(letters == ord(">")) - 2
        arrows = arrows[self.words[arrows] & np.uint64(0xFFFFFFFF) == np.uint64(_TO)]
        colons = np.flatnonzero(letters == ord(":"))
        colons = colons[letters[colons + 1] == ord(" ")]
        self._arrows = np.append(arrows, len(block))
        self._arrow_counts, self._first_arrow = self._by_line(arrows)
        self._colons, _ = self._by_line(colons)

    def _by_line(self, places: I64) -> tuple[I64, I64]:
        """Return for each line how many places are in it, and the row of the first place at or after its start."""
        width = len(places) // self.count if self.count else 0
        if width and len(places) == width * self.count:  # nearly always all lines have as many
            table = places.reshape(self.count, width)
            if (table[:, 0] >= self.starts).all() and (table[:, -1] < self.ends).all():
                return np.full(self.count, width), np.arange(0, len(places), width)
        first = np.searchsorted(places, np.append(self.starts, len(self._block)))
        return np.diff(first), first[:-1]

    def line(self, at: int) -> bytes:
        """Return a line with its end."""
        return self._block[self.starts[at] : self.ends[at] + 1]

    def before(self, end: int) -> bytes:
        """Return the part of a line before a place."""
        return self._block[self._block.rfind(b"\n", 0, end) + 1 : end]

    def fitting(self, shape: Shape, rest: I64) -> tuple[Bool, I64]:
        """Find the lines of a shape, and the places of their arrows."""
        fitting = (self._arrow_counts[rest] == 1) & (self._colons[rest] == shape.colons)
        fitting &= self.ends[rest] - self.starts[rest] + 1 >= shape.length
        chosen = rest[fitting]
        fits = shape.fits(self.words, self.starts[chosen])
        at = self._arrows[self._first_arrow[chosen]]
        fits &= (at >= self.starts[chosen] + shape.length - 1) & (at + 20 <= self.ends[chosen])
        letters = np.frombuffer(self._block, np.uint8)
        after = letters[np.minimum(at + 20, len(letters) - 1)]
        fits &= (after == 32) | (after == 10)
        fitting[fitting] = fits
        return fitting, at[fits]

    def times(self, sec: tuple[int, int], frac: tuple[int, int], starts: I64) -> tuple[U64, Bool]:
        """Parse times into ns; return them, and which are valid."""
        seconds, good = self._long(starts, *sec)
        fraction, valid = self._long(starts, *frac)
        scale = 10 ** (9 - (frac[1] - frac[0]))
        good = good & valid & (seconds < np.uint64(MOST_SECONDS))
        good &= ~is_blank(self.words, starts + sec[1] - 1) & ~is_blank(self.words, starts + frac[0])
        return seconds * np.uint64(10**9) + fraction * np.uint64(scale), good

    def _long(self, starts: I64, begin: int, end: int) -> tuple[U64, Bool]:
        """Parse decimal numbers of any width; return them, and which are valid."""
        low, good = decimal(self.words, starts + end, min(end - begin, 8))
        if end - begin <= 8:
            return low, good
        high, valid = decimal(self.words, starts + end - 8, min(end - begin - 8, 8))
        middle = starts + end - 8  # digits before it and blanks after it are no number
        good = good & valid & (~is_blank(self.words, middle) | is_blank(self.words, middle - 1))
        return high * np.uint64(10**8) + low, good

    def ends_with(self, ends: I64, wanted: bytes) -> Bool:
        """Return which of the places have these characters before them."""
        same = np.ones(len(ends), np.bool_)
        size = len(wanted)
        for at in range(0, size, 8):
            have = self.words[np.maximum(ends - size + at, 0)]
            part = wanted[at : at + 8]
            mask = np.uint64((1 << 8 * len(part)) - 1)
            same &= have & mask == np.uint64(int.from_bytes(part, "little"))
        return same
