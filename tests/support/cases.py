"""Cases of one test: which of them everybody runs, and which only `make test`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def one_quick(*cases: Any) -> list[Any]:
    """The first case as it is, the others marked ``thorough``: `make check` has two minutes."""
    first, *others = cases
    return [first, *(pytest.param(case, marks=pytest.mark.thorough) for case in others)]


def quick_where(quick: Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """Those for which ``quick`` is true as they are, the others marked ``thorough``."""
    return [case if quick(case) else pytest.param(case, marks=pytest.mark.thorough) for case in cases]
