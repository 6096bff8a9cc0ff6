"""Lines of perf script of one shape are read together, and each as it would be read alone."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from prologue.arrays import I64, Bool
from prologue.trace.ranges import Tally, TracedTask
from prologue.trace.readers.perf_lines import Shape
from prologue.trace.readers.perf_script import read_perf_script
from prologue.trace.readers.streams import Peekable
from tests.trace.made import perf_text
from tests.trace.test_check import STEPS

Read = tuple[list[tuple[int, int, TracedTask, str]], list[str]]
DAMAGES: dict[str, Callable[[str], str]] = {
    "no program": lambda line: line.replace("([kernel.kallsyms])", "([kernel.)"),
    "a bracket": lambda line: line.replace("([kernel.kallsyms])", "([kern)l.kallsyms])"),
    "no task": lambda line: line.replace(" cat    77/77    [", "xcat    77/77xx  ["),
    "another task": lambda line: line.replace("cat    77/77", "cat 123456/77"),
    "no CPU": lambda line: line.replace("[000]", "[0 0]"),
}


def read(text: str) -> Read:
    account = Tally()
    rows: list[tuple[int, int, TracedTask, str]] = []
    for batch in read_perf_script(Peekable(io.BytesIO(text.encode()), "perf"), account):
        rows += [
            (start, end, batch.tasks[task], batch.dsos[dso])
            for start, end, task, dso in batch.ranges[["start", "end", "task", "dso"]].tolist()
        ]
    return rows, sorted(account.lines())


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("at", [0, 3])
def test_a_damaged_line_among_others_is_read_as_alone(damage: str, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = perf_text(STEPS * 4).splitlines(keepends=True)
    lines[at], whole = DAMAGES[damage](lines[at]), lines[at]
    assert lines[at] != whole
    together = read("".join(lines))

    def no_line(_self: Shape, _words: Any, starts: I64) -> Bool:
        return np.zeros(len(starts), np.bool_)

    monkeypatch.setattr(Shape, "fits", no_line)
    assert together == read("".join(lines))
