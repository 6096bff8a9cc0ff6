"""PL107 on tables of which only a zero says that they were sorted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.kernel.kernel import Kernel
from prologue.rules import pl107_records_unsorted as pl107
from prologue.rules.base import Subject
from tests.mini_kernel.build import Spec
from tests.support.elf_edit import edit


def ascending(values: list[int]) -> list[int]:
    return values


def exchanged(values: list[int]) -> list[int]:
    return [values[1], values[0], *values[2:]]


def descending(values: list[int]) -> list[int]:
    """Many objects, linked in another order than their text."""
    return values[::-1]


@pytest.mark.parametrize(
    ("arrange", "is_sorted", "found"), [(ascending, True, 0), (exchanged, True, 1), (descending, False, 0)]
)
def test_a_zero_in_front(
    mini: Callable[[Spec], Path], arrange: Callable[[list[int]], list[int]], found: int, *, is_sorted: bool
) -> None:
    """scripts/sorttable puts zeros there, and so may damage in a table that nothing sorted."""
    path = mini(Spec())
    with edit(path) as elf:
        slots = elf.live_slots()
        values = arrange(sorted(elf.record(slot) for slot in slots)[1:])
        for slot, value in zip(slots, [0, *values], strict=True):
            elf.set_record(slot, value)
    kernel = Kernel(path)
    assert len(list(pl107.check(Subject(kernel)))) == found
    assert kernel.sorts_at_build is is_sorted
