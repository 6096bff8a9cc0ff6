"""Between which times a range ran: the times of its CPU before and after it, whatever the batches."""

from __future__ import annotations

import numpy as np
import pytest

from prologue.trace.path import instants
from prologue.trace.path.instants import UNBOUNDED, settled
from prologue.trace.ranges import GAP, NO_TASK, Batch, new_ranges


def test_before_a_time_that_many_ranges_have_a_write_may_have_been(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of one time are given away in parts: each part begins no later than the first."""
    monkeypatch.setattr(instants, "_MOST", 1)
    ranges = new_ranges(6)
    ranges["cpu"], ranges["time"] = 0, [5, 8, 8, 8, 9, 10]
    batches = (Batch(ranges[at : at + 1], [NO_TASK], [""]) for at in range(6))
    assert np.concatenate([instants.earliest for _, instants in settled(batches)]).tolist() == [0, 5, 5, 5, 8, 9]


def test_a_time_that_goes_back_bounds_nothing() -> None:
    """Between 9 and 3 another trace begins: the first ends after 9, and the second may have begun long before 3."""
    ranges = new_ranges(4)
    ranges["cpu"], ranges["time"] = 0, [8, 9, 3, 4]
    ((_, instants), *_) = [one for one in settled(iter([Batch(ranges, [NO_TASK], [""])])) if len(one[0].ranges)]
    assert instants.earliest.tolist() == [0, 8, 0]
    assert instants.latest.tolist() == [9, UNBOUNDED, 4]


def test_instants() -> None:
    """Each range lies between the other times of its CPU, and is followed by that CPU's next one, batch after batch."""
    ranges = new_ranges(9)
    ranges["cpu"] = [0, 1, 0, 1, 0, 0, 1, 0, 1]
    ranges["time"] = [5, 5, 5, 7, 8, 8, 7, 9, 7]
    ranges["start"] = np.arange(100, 1000, 100)
    ranges["flags"][4] = GAP
    wanted = {
        100: (0, 8, 300), 300: (0, 8, 0), 500: (5, 9, 600), 600: (5, 9, 800), 800: (8, UNBOUNDED, 0),
        200: (0, 7, 400), 400: (5, UNBOUNDED, 700), 700: (5, UNBOUNDED, 900), 900: (5, UNBOUNDED, 0),
    }  # fmt: skip
    for size in range(1, 10):
        batches = (Batch(ranges[at : at + size], [NO_TASK], [""]) for at in range(0, 9, size))
        found, order = {}, {0: list[int](), 1: list[int]()}
        for batch, times in settled(batches):
            assert len(batch.ranges) == len(times.onward)
            for row, *known in zip(batch.ranges, *times, strict=True):
                found[int(row["start"])] = tuple(map(int, known[:3]))
                order[int(row["cpu"])].append(int(row["start"]))
        assert found == wanted
        assert order == {0: [100, 300, 500, 600, 800], 1: [200, 400, 700, 900]}
