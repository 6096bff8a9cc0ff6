"""In which order processes share the tests: what takes longest first, so that no process has much left at the end."""

from __future__ import annotations

from typing import Final

import pytest

DEFAULT_TIMEOUT: Final = 900  # pyproject.toml's


def longest_first(items: list[pytest.Item]) -> None:
    """Sort so: real kernels, those of them that are built from source, the rest; of each, what may take longest."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> tuple[int, float]:
    marker = item.get_closest_marker("timeout")
    timeout = marker.args[0] if marker is not None else DEFAULT_TIMEOUT
    if item.get_closest_marker("builds") is not None:  # while the others run, prebuild.py builds
        return 1, -timeout
    return (0 if item.get_closest_marker("kernel") is not None else 2), -timeout
