"""Numbers of things, and what may have been meant."""

from __future__ import annotations

import pytest

from prologue.words import counted, meant


@pytest.mark.parametrize(
    ("count", "plural", "said"), [(0, "", "0 sites"), (1, "", "1 site"), (2000, "", "2,000 sites"), (2, "of", "2 of")]
)
def test_one_and_many(count: int, plural: str, said: str) -> None:
    assert counted(count, "site", plural=plural) == said


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("verfy", "did you mean verify?"),
        ("boots", "did you mean boot?"),
        ("bo", "did you mean boot?"),
        ("frobnicate", ""),
    ],
)
def test_near_words(word: str, said: str) -> None:
    assert meant(word, ["verify", "boot", "build"]) == said
