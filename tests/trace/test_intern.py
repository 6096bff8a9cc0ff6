"""Numbers and counts for millions of rows equal those that a dictionary gives."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from prologue.trace.readers.intern import Interner, RunCounts, by_lane
from prologue.trace.views.rendering import distinct, time_texts


@pytest.mark.thorough
@pytest.mark.parametrize("spread", [1, 1 << 32, 0x9E3779B97F4A7C15])
def test_numbers_are_those_of_a_dictionary(spread: int) -> None:
    random = np.random.default_rng(spread & 0xFFFF)
    interner, numbers = Interner(), dict[int, int]()
    for count in (0, 1, 2, 1000, 70_000, 3, 200_000, 0):  # the table grows on the way
        keys = random.integers(0, 60_000, count).astype(np.uint64) * np.uint64(spread)
        found, fresh = interner.numbers(keys)
        new = []
        for row, key in enumerate(keys.tolist()):
            if key not in numbers:
                numbers[key] = len(numbers)
                new.append(row)
        assert found.tolist() == [numbers[key] for key in keys.tolist()]
        assert fresh.tolist() == new
        assert len(interner) == len(numbers)


def test_counts() -> None:
    random = np.random.default_rng(5)
    counts, wanted = RunCounts(), Counter[int]()
    for upto in (1, 10, 100_000, 50):
        numbers = random.integers(0, upto, 60_000)
        counts.add(numbers)
        wanted.update(numbers.tolist())
        assert counts.up_to(100_001).tolist() == [wanted[k] for k in range(100_001)]


@pytest.mark.parametrize("high", [3, 1 << 20])
def test_lanes_keep_their_order(high: int) -> None:
    lanes = np.random.default_rng(6).integers(-high, high, 500)
    order = by_lane(lanes)
    assert order.tolist() == sorted(range(500), key=lambda row: lanes[row])
    assert by_lane(lanes[:1]).tolist() == [0]
    assert by_lane(lanes[:0]).tolist() == []


def test_distinct() -> None:
    keys = np.repeat(np.random.default_rng(7).integers(0, 9, 300), 4)
    values, rows = distinct(keys)
    assert values.tolist() == sorted(set(keys.tolist()))
    assert values[rows].tolist() == keys.tolist()


def test_times() -> None:
    random = np.random.default_rng(8)
    times = np.concatenate([random.integers(0, 10**9, 50), random.integers(0, 2**63, 50)]).astype(
        np.uint64
    ) * np.uint64(2)
    heads = [b"a ", b"longer "]
    rows = random.integers(0, 2, 100)
    wanted = [b"%s%9d.%09d  " % (heads[row], time // 10**9, time % 10**9)
              for row, time in zip(rows.tolist(), times.tolist(), strict=True)]  # fmt: skip
    assert time_texts(times, heads, rows) == wanted
