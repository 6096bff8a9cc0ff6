"""How processes share the tests: files, and of those that boot real kernels all in one process.

These take most of the time and their machines two CPUs each: they come first, and the others run beside them.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadFileScheduling

BOOTED: Final = "tests/real_kernels/booted/"


class BootsInOne(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """By file, as what the tests of a file share is made once; all that boot real kernels count as one file."""

    def _split_scope(self, nodeid: str) -> str:
        return BOOTED if nodeid.startswith(BOOTED) else super()._split_scope(nodeid)


def longest_first(items: list[pytest.Item]) -> None:
    """Sort so: boots of real kernels, then other boots, then the rest; last what may wait for a kernel's build."""
    items.sort(
        key=lambda item: (
            not item.nodeid.startswith(BOOTED),
            item.get_closest_marker("builds") is not None,
            item.get_closest_marker("qemu") is None,
        )
    )
