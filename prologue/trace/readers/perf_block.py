"""A block of lines as arrays: lines of one shape, and the fields in their columns.

Eight characters are one 64-bit word, and a few operations convert the digits of all of them. Text is little-endian in a
word: its first character is the lowest byte. Blanks before a number count as zeros.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool
from prologue.trace.readers.perf_lines import MOST_SECONDS, Shape

_ONES: Final = 0x0101010101010101


BEFORE: Final = b"\n" * 16
"""Padding for a number at the start of a block, which is read with the characters before it."""
AFTER: Final = b"\n" * 1024
"""Padding for a number at the end of a block."""
_TO: Final = int.from_bytes(b" => ", "little")


def _every(byte: int) -> np.uint64:
    return np.uint64(byte * _ONES)


def words_view(block: bytes) -> npt.NDArray[Any]:
    """View the eight characters from every place on, shape (bytes - 7,), dtype uint64; pad the block by eight."""
    return np.ndarray((max(len(block) - 7, 0),), "<u8", block, 0, (1,))


def hexadecimal(text: U64) -> tuple[U64, Bool]:
    """Parse eight characters each of right-aligned lower-case hexadecimal digits.

    Returns:
        Their values, and which are valid: digits and blanks; shape of ``text``.

    """
    letter = text >> np.uint64(6) & _every(1)  # a to f are 0x61 to 0x66; digits and the blank have no bit 6
    low = text & _every(0x0F)
    nonzero = low + _every(15) >> np.uint64(4) & _every(1)  # bytes whose low half is not 0
    blank = ~text >> np.uint64(4) & _every(1) & ~letter  # should be 0x20
    # Digits are 0x30 to 0x39, letters 0x61 to 0x66: the high half is right ...
    good = text & _every(0xF0) == _every(0x30) + letter * np.uint64(0x30) - blank * np.uint64(0x10)
    # ... and so is the low half: up to 9, from 1 to 6, or 0. No sum leaves its byte.
    good &= (low + _every(6) + letter * np.uint64(3)) & _every(0xF0) == 0
    good &= nonzero & (letter | blank) == letter
    good &= _is_padding(blank)
    nibbles = low + letter * np.uint64(9)
    return _join(nibbles, 16), good


def hex16(words: npt.NDArray[Any], at: I64) -> tuple[U64, Bool]:
    """Parse sixteen such characters from each place ``at`` on.

    Returns:
        64-bit numbers, and which are valid and not blank; shape of ``at``.

    """
    top, low = words[at], words[at + 8]
    high, high_good = hexadecimal(top)
    value, good = hexadecimal(low)
    is_given = low >> np.uint64(56) != np.uint64(0x20)
    is_given &= (low & np.uint64(0xFF) != np.uint64(0x20)) | (top >> np.uint64(56) == np.uint64(0x20))
    return high << np.uint64(32) | value, good & high_good & is_given


def _is_padding(blank: U64) -> Bool:
    """Return whether blanks (1 in their bytes) stand before all digits, not among or after them."""
    padding: Bool = (~blank & _every(1)) << np.uint64(8) & blank == 0
    return padding


def _join(digits: U64, base: int) -> U64:
    """Join digits in bytes, the first the most significant, to one number."""
    weight = np.uint64(base)
    pairs = (digits & np.uint64(0x00FF00FF00FF00FF)) * weight + (digits >> np.uint64(8) & np.uint64(0x00FF00FF00FF00FF))
    weight = np.uint64(base**2)
    fours = (pairs & np.uint64(0x0000FFFF0000FFFF)) * weight + (pairs >> np.uint64(16) & np.uint64(0x0000FFFF0000FFFF))
    weight = np.uint64(base**4)
    return (fours & np.uint64(0xFFFFFFFF)) * weight + (fours >> np.uint64(32))


def is_blank(words: npt.NDArray[Any], at: I64) -> Bool:
    """Return whether a blank is in each place; shape of ``at``."""
    blank: Bool = words[at] & np.uint64(0xFF) == np.uint64(0x20)
    return blank


def decimal(words: npt.NDArray[Any], end: I64, width: int) -> tuple[U64, Bool]:
    """Parse decimal numbers that end before each place ``end``, right-aligned in ``width``, up to eight characters.

    Returns:
        Their values, and which are valid; shape of ``end``.

    """
    read = words[end - 8]
    text = read >> np.uint64(8 * (8 - width)) << np.uint64(8 * (8 - width))
    padding = np.uint64(0x2020202020202020 & ((1 << 8 * (8 - width)) - 1))
    text = text | padding
    low = text & _every(0x0F)
    blank = ~text >> np.uint64(4) & _every(1)
    good = text & _every(0xF0) == _every(0x30) - blank * np.uint64(0x10)
    good &= ((low + _every(6)) & _every(0xF0) == 0) & ((low + _every(15)) >> np.uint64(4) & blank == 0)
    good &= _is_padding(blank)
    return _join(low, 10), good


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
        first = np.searchsorted(places, np.append(self.starts, len(self._block)))
        return np.diff(first), first[:-1]

    def line(self, at: int) -> bytes:
        """Return a line with its end."""
        return self._block[self.starts[at] : self.ends[at] + 1]

    def before(self, end: int) -> bytes:
        """Return the part of a line before a place."""
        return self._block[self._block.rfind(b"\n", 0, end) + 1 : end]

    def fitting(self, shape: Shape, lines: I64) -> tuple[Bool, I64]:
        """Find the lines of a shape, and the places of their arrows."""
        fitting = (self._arrow_counts[lines] == 1) & (self._colons[lines] == shape.colons)
        fitting &= self.ends[lines] - self.starts[lines] + 1 >= shape.length
        chosen = lines[fitting]
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
