"""Cases of one test: their names, which of them each of the make targets runs, and how they show what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any, Final, TypeGuard

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


MOST: Final = 10  # differences that are shown
_ADDRESS: Final = 0xFFFF  # what is above it reads better in hexadecimal


def explain(operator: str, left: object, right: object) -> list[str] | None:
    """Return the lines for a comparison that failed; None leaves it to pytest."""
    if operator != "==" or not _has_address_or_mask(left, right):
        return None
    if isinstance(left, Set) and isinstance(right, Set):
        lines = [f"only {side}: {_shown(value)}" for side, more in _apart(left, right) for value in sorted(more)]
        return ["the sets differ", *_cut(lines)]
    if _is_sequence(left) and _is_sequence(right):
        pairs = enumerate(zip_longest(left, right, fillvalue=None))
        lines = [f"[{k}] {_shown(one)} != {_shown(other)}" for k, (one, other) in pairs if one != other]
        return [f"{len(left)} values == {len(right)} values; these differ:", *_cut(lines)]
    if isinstance(left, int) and isinstance(right, int):
        return [f"{_shown(left)} == {_shown(right)}"]
    return None


def _has_address_or_mask(*sides: Any) -> bool:
    values = [value for side in sides for value in (side if _is_sequence(side) or isinstance(side, Set) else (side,))]
    if not all(isinstance(value, int) for value in values):
        return False
    return any(value > _ADDRESS for value in values) or (len(values) > 2 and all(isinstance(v, bool) for v in values))


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


def _apart(left: Set[Any], right: Set[Any]) -> tuple[tuple[str, Set[Any]], ...]:
    return ("left", left - right), ("right", right - left)


def _shown(value: object) -> str:
    return hex(value) if isinstance(value, int) and value > _ADDRESS else str(value)


def _cut(lines: list[str]) -> list[str]:
    return lines[:MOST] + [f"... and {len(lines) - MOST} more"] * (len(lines) > MOST)
