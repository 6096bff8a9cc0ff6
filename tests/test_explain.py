"""A test that fails says which case it was, and which addresses differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cases import LONGEST_ID, MOST, explain, in_words

TEXT = 0xFFFF800080010000


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (TEXT, "0xffff800080010000"),
        (3, "word count 3"),
        (False, "not word count"),
        (True, "word count"),
        (None, "no word count"),
        ((), "no word count"),
        ("two\n  lines\t", "two lines"),
        ("", "empty word count"),
        (Path("some/vmlinux"), "vmlinux"),
        (("nop", TEXT, False), "nop 0xffff800080010000 False"),
        pytest.param(object(), None, id="an object"),
        pytest.param(("nop", object()), None, id="a text and an object"),
    ],
    ids=str,
)
def test_cases_are_named_in_words(value: object, words: str | None) -> None:
    assert in_words(value, "word_count") == words


def test_a_long_name_is_cut_at_a_word() -> None:
    name = in_words("word " * 100, "x")
    assert name is not None
    assert name.endswith("word ...")
    assert len(name) <= LONGEST_ID + 4


def test_addresses_are_hexadecimal() -> None:
    assert explain("==", TEXT, TEXT + 4) == ["0xffff800080010000 == 0xffff800080010004"]
    assert explain("==", {TEXT, 1}, {1}) == ["the sets differ", "only left: 0xffff800080010000"]


def test_what_differs_is_shown_with_its_index() -> None:
    many = [True] * 30
    assert explain("==", many, [*many[:7], False, *many[8:]]) == [
        "30 values == 30 values; these differ:", "[7] True != False",
    ]  # fmt: skip
    assert explain("==", [TEXT], []) == ["1 values == 0 values; these differ:", "[0] 0xffff800080010000 != None"]
    lines = explain("==", many, [])
    assert lines is not None
    assert lines[-1] == f"... and {30 - MOST} more"


def test_all_else_is_pytests() -> None:
    for operator, left, right in (
        ("==", 1, 2),
        ("==", "a", "b"),
        ("in", TEXT, [1]),
        ("==", [TEXT], "a"),
        ("==", True, False),
    ):
        assert explain(operator, left, right) is None
