"""Cases of one test: which of them everybody runs, which only `make test`, and which only `make test-all`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def one_quick(*cases: Any) -> list[Any]:
    """The first case as it is, the others marked ``thorough``: `make check` has two minutes."""
    first, *others = cases
    return [first, *(_marked(case, pytest.mark.thorough) for case in others)]


def quick_where(quick: Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """Those for which ``quick`` is true as they are, the others marked ``thorough``."""
    return [case if quick(case) else _marked(case, pytest.mark.thorough) for case in cases]


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
