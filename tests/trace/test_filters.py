"""What is left out of a trace: ranges, never the gaps between those that are shown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prologue.trace.path.filters import Selection
from prologue.trace.ranges import GAP, NO_TASK, Batch, new_ranges

# CPU, whether a gap is before it, whether it is shown, whether a batch ends with it
ROWS = st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.booleans(), st.booleans()), max_size=40)


def one_by_one(rows: list[tuple[int, bool, bool, bool]]) -> list[tuple[int, bool]]:
    """Row and whether a gap is before it, of those that are shown."""
    lost: dict[int, bool] = {}
    found = []
    for number, (cpu, gap, shown, _) in enumerate(rows):
        lost[cpu] = lost.get(cpu, False) or gap
        if shown:
            found.append((number, lost[cpu]))
            lost[cpu] = False
    return found


@pytest.mark.thorough
@given(ROWS)
def test_a_gap_between_two_shown_ranges_is_shown(rows: list[tuple[int, bool, bool, bool]]) -> None:
    selection = Selection()
    cuts = [number + 1 for number, row in enumerate(rows) if row[3]]
    found: list[tuple[int, bool]] = []
    for begin, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        part = rows[begin:end]
        ranges = new_ranges(len(part))
        ranges["cpu"] = [row[0] for row in part]
        ranges["flags"] = [GAP if row[1] else 0 for row in part]
        before = ranges.copy()
        keep = np.array([row[2] for row in part], np.bool_)
        batch, numbers = selection.take(Batch(ranges, [NO_TASK], [""]), np.arange(begin, end), keep)
        assert np.array_equal(ranges, before)
        found += zip(numbers.tolist(), (batch.ranges["flags"] & GAP != 0).tolist(), strict=True)
    assert found == one_by_one(rows)
