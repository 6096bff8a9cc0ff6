"""Cases of one test: which of them everybody runs, which only `make test`, and which only `make test-all`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import pytest


def one_quick(*cases: Any) -> list[Any]:
    """The first case as it is, the others marked ``thorough``: `make check` has two minutes."""
    first, *others = cases
    return [first, *(_marked(case, pytest.mark.thorough) for case in others)]


def quick_and_pairs(
    quick: Callable[[Any], bool], cases: Iterable[Any], factors: Callable[[Any], tuple[object, ...]]
) -> list[Any]:
    """Those for which ``quick`` is true as they are, others marked ``thorough`` or ``extended``.

    The quick and the thorough ones together have each pair of values of two factors that any case has.
    """
    cases = tuple(cases)
    pairs = [frozenset(combinations(enumerate(factors(case)), 2)) for case in cases]
    kept = [number for number, case in enumerate(cases) if quick(case)]
    missing = frozenset().union(*pairs).difference(*(pairs[number] for number in kept))
    thorough = []
    while missing:
        thorough.append(max(range(len(cases)), key=lambda number: len(pairs[number] & missing)))
        missing -= pairs[thorough[-1]]
    marks = {**dict.fromkeys(thorough, pytest.mark.thorough), **dict.fromkeys(kept, None)}
    marked = [(case, marks.get(number, pytest.mark.extended)) for number, case in enumerate(cases)]
    return [case if mark is None else _marked(case, mark) for case, mark in marked]


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
