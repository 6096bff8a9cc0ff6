"""Cases of one test: their names, and which of them each of the make targets runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest

LONGEST_ID: Final = 60
_READ: Final = 1000  # of a text, for its id


def in_words(value: object, name: str) -> str | None:
    """Return the id of a parameter that its test gives none, so that a failed test's name says which case it was.

    None leaves it to pytest.
    """
    words = name.replace("_", " ").strip()
    match value:
        case None:
            return f"no {words}" if words else "none"
        case bool():
            return (words if value else f"not {words}") if words else str(value)
        case int():
            return hex(value) if value > 0xFFFF else f"{words} {value}".strip()
        case float():
            return f"{words} {value}".strip()
        case str() | bytes():
            text = value if isinstance(value, str) else value.decode("latin-1")
            start = text[:_READ]  # some are whole files
            shown = " ".join("".join(letter if " " <= letter <= "~" else " " for letter in start).split())
            return shorten(shown) if shown else f"empty {words}"
        case Path():
            return value.name
        case tuple() | list() if value:
            each = [in_words(part, "") for part in value]
            return None if None in each else shorten(" ".join(map(str, each)).strip())
        case tuple() | list() | dict() | set() | frozenset() if not value:
            return f"no {words}"
        case dict():
            return shorten(" ".join(f"{key}={in_words(part, '')}" for key, part in value.items()))
    return None


def shorten(text: str) -> str:
    """Cut a long id at a word."""
    return text if len(text) <= LONGEST_ID else f"{text[:LONGEST_ID].rpartition(' ')[0] or text[:LONGEST_ID]} ..."


def one_quick(*cases: Any) -> list[Any]:
    """The first case as it is, the others marked ``thorough``: `make check` has two minutes."""
    first, *others = cases
    return [first, *(_marked(case, pytest.mark.thorough) for case in others)]


def pairs(
    cases: Iterable[Any], factors: Callable[[Any], tuple[object, ...]], quick: Callable[[Any], bool] = lambda _: False
) -> list[Any]:
    """So many of the cases that each pair of values of two factors is in one; those that are ``quick`` first.

    With ``quick``, the others are marked ``thorough``.
    """
    cases = tuple(cases)
    covered = [frozenset(combinations(enumerate(factors(case)), 2)) for case in cases]
    first = chosen = [number for number, case in enumerate(cases) if quick(case)]
    missing = frozenset().union(*covered).difference(*(covered[number] for number in first))
    while missing:
        chosen = [*chosen, max(range(len(cases)), key=lambda number: len(covered[number] & missing))]
        missing -= covered[chosen[-1]]
    return [
        cases[number] if not first or number in first else _marked(cases[number], pytest.mark.thorough)
        for number in chosen
    ]


def one_tested(*cases: Any) -> list[Any]:
    """The first case as it is, the others marked ``extended``: `make test` has a quarter of an hour."""
    first, *others = cases
    return [first, *(_marked(case, pytest.mark.extended) for case in others)]


def kept_where(kept: Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """Those for which ``kept`` is true as they are, the others marked ``extended``."""
    return [case if kept(case) else _marked(case, pytest.mark.extended) for case in cases]


def _marked(case: Any, mark: pytest.MarkDecorator) -> Any:
    """Mark one case; a plain tuple has the values of several parameters."""
    return pytest.param(*(case if type(case) is tuple else (case,)), marks=mark)
