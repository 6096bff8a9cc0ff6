"""Snapshot directories: each range as OpenCSD's own program prints it, in every respect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prologue.errors import InputError
from prologue.trace.coresight.snapshot import read_snapshot
from prologue.trace.ranges import RANGE, UNSURE
from prologue.trace.readers.sources import Trace, open_trace
from tests.support.cases import kept_where
from tests.support.snapshots import snapshot_directories
from tests.trace.test_snapshots import LARGEST, NAMES

thorough = pytest.mark.thorough
OLD = {"Snowball": "PTM1.0", "TC2": "ETM3.5", "tc2-ptm-rstk-t32": "PFT1.1", "trace_cov_a15": "PFT1.1"}
"""Snapshots of ETMv3 and PTM, which are refused by name."""


def _columns(trace: Trace) -> dict[str, list[Any]]:
    """Every column, and of tasks their numbers."""
    found: dict[str, list[Any]] = {name: [] for name in RANGE.names or ()}
    try:
        for batch in trace.batches:
            tids = np.array([task.tid for task in batch.tasks])
            for name in found:
                values = batch.ranges[name]
                values = tids[values] if name == "task" else values
                # Without packets, more returns are unsure.
                found[name] += (values & (UNSURE - 1) if name == "flags" else values).tolist()
    except InputError as error:
        assert "has no instruction ranges" in str(error)  # noqa: PT017 - and then there are none
    return found


@thorough
@pytest.mark.parametrize(
    "name", kept_where(lambda name: name != LARGEST, sorted({name.rpartition("/")[0] for name in NAMES}))
)
def test_every_range_is_as_trc_pkt_lister_has_it(name: str, texts: dict[str, Path]) -> None:
    directory = snapshot_directories()[name]
    short = name.rpartition("/")[2]
    if short in OLD:
        with pytest.raises(InputError, match=OLD[short]), open_trace(str(directory)):
            pass
        return
    expected: dict[str, list[Any]] = {column: [] for column in RANGE.names or ()}
    for buffer in (buffer.name for buffer in read_snapshot(directory)):
        with open_trace(str(texts[f"{name}/{buffer}"])) as trace:
            for column, values in _columns(trace).items():
                expected[column] += values
    try:
        with open_trace(str(directory)) as trace:
            found = _columns(trace)
    except InputError as error:
        assert "has no trace of an ETMv4 or ETE" in str(error)  # noqa: PT017 - only sources of other data
        found = {column: [] for column in expected}
    for column, values in expected.items():
        assert found[column] == values, column
