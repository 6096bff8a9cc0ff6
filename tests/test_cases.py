"""A test that fails says which case it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cases import LONGEST_ID, in_words

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
