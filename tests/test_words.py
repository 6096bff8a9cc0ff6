"""Numbers of things."""

from __future__ import annotations

import pytest

from prologue.words import counted


@pytest.mark.parametrize(
    ("count", "plural", "said"), [(0, "", "0 sites"), (1, "", "1 site"), (2000, "", "2,000 sites"), (2, "of", "2 of")]
)
def test_one_and_many(count: int, plural: str, said: str) -> None:
    assert counted(count, "site", plural=plural) == said
