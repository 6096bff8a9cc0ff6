"""Numbers in text, many at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prologue.trace.readers.perf_block import decimal, hex16, hexadecimal, words_view


def test_every_character_in_every_place_of_a_hexadecimal_number() -> None:
    for character in range(256):
        for place in range(8):
            text = bytearray(b"1f9a0c36")
            text[place] = character
            value, good = hexadecimal(np.frombuffer(bytes(text), "<u8"))
            assert bool(good[0]) == (chr(character) in "0123456789abcdef" + " " * (not place)), text
            if good[0] and character != ord(" "):
                assert int(value[0]) == int(text, 16)


def test_every_character_in_every_place_of_a_decimal_number() -> None:
    for character in range(256):
        for place in range(8):
            text = bytearray(b"12345678")
            text[place] = character
            value, good = decimal(words_view(bytes(text) + b" "), np.array([8]), 8)
            assert bool(good[0]) == (chr(character) in "0123456789" + " " * (not place)), text
            if good[0] and character != ord(" "):
                assert int(value[0]) == int(text)


@given(st.integers(0, (1 << 64) - 1))
def test_padded_hexadecimal_numbers(number: int) -> None:
    value, good = hex16(words_view(b"xy%16x more than it" % number), np.array([2]))
    assert good[0]
    assert int(value[0]) == number


@given(st.integers(1, 8).flatmap(lambda width: st.tuples(st.just(width), st.integers(0, 10**width - 1))))
def test_padded_decimal_numbers(number: tuple[int, int]) -> None:
    width, wanted = number
    text = b"7777777[" + b"%*d" % (width, wanted) + b"] 12345678"
    value, good = decimal(words_view(text), np.array([8 + width]), width)
    assert good[0]
    assert int(value[0]) == wanted


def test_a_blank_is_no_address() -> None:
    assert not hex16(words_view(b" " * 24), np.array([0]))[1][0]
