"""Digits of many numbers in text: eight characters are one 64-bit word, and a few operations convert all of them.

Text is little-endian in a word: its first character is the lowest byte. Blanks before a number count as zeros.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool

_ONES: Final = 0x0101010101010101


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
    some = low + _every(15) >> np.uint64(4) & _every(1)  # bytes whose low half is not 0
    blank = ~text >> np.uint64(4) & _every(1) & ~letter  # should be 0x20
    # Digits are 0x30 to 0x39, letters 0x61 to 0x66: the high half is right ...
    good = text & _every(0xF0) == _every(0x30) + letter * np.uint64(0x30) - blank * np.uint64(0x10)
    # ... and so is the low half: up to 9, from 1 to 6, or 0. No sum leaves its byte.
    good &= (low + _every(6) + letter * np.uint64(3)) & _every(0xF0) == 0
    good &= some & (letter | blank) == letter
    good &= _is_padding(blank)
    nibbles = low + letter * np.uint64(9)
    return _join(nibbles, 16), good


def hex16(words: npt.NDArray[Any], at: I64) -> tuple[U64, Bool]:
    """Parse sixteen such characters from each place ``at`` on.

    Returns:
        64-bit numbers, and which are valid and not blank; shape of ``at``.

    """
    top, low = words[at], words[at + 8]
    # Addresses of one kernel nearly all begin with the same digits.
    high, high_good = hexadecimal(top.ravel()[:1] if _are_equal(top) else top)
    value, good = hexadecimal(low)
    is_given = low >> np.uint64(56) != np.uint64(0x20)
    is_given &= (low & np.uint64(0xFF) != np.uint64(0x20)) | (top >> np.uint64(56) == np.uint64(0x20))
    return high << np.uint64(32) | value, good & high_good & is_given


def _is_padding(blank: U64) -> Bool:
    """Return whether blanks (1 in their bytes) stand before all digits, not among or after them."""
    padding: Bool = (~blank & _every(1)) << np.uint64(8) & blank == 0
    return padding


def _are_equal(text: U64) -> bool:
    return bool((text == text.ravel()[:1]).all())


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
    text = (read[:1] if _are_equal(read) else read) >> np.uint64(8 * (8 - width)) << np.uint64(8 * (8 - width))
    padding = np.uint64(0x2020202020202020 & ((1 << 8 * (8 - width)) - 1))
    text = text | padding
    low = text & _every(0x0F)
    blank = ~text >> np.uint64(4) & _every(1)
    good = text & _every(0xF0) == _every(0x30) - blank * np.uint64(0x10)
    good &= ((low + _every(6)) & _every(0xF0) == 0) & ((low + _every(15)) >> np.uint64(4) & blank == 0)
    good &= _is_padding(blank)
    return np.broadcast_to(_join(low, 10), end.shape), np.broadcast_to(good, end.shape)
