"""Stacks where an interrupt comes between a branch and the first instruction there: after it they are as without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tool import Tool
from tests.trace.made import MadeKernel, Run, recording

KERNEL = MadeKernel(
    {
        "vectors": ["nop", "eret", *["nop"] * 30] * 16,
        "top": ["nop", "bl middle", "ret"],
        "middle": ["nop", "nop", "blr x1", "b last"],
        "last": ["nop", "ret"],
    }
)
IRQ = ("vectors+0x280", 2)
CALLS = (("top", 2), ("middle", 3), ("last", 2), ("middle+12", 1), ("last", 2), ("top+8", 1))
Rows = tuple[tuple[str, int], ...]


@pytest.fixture
def run(tmp_path: Path, tool: Tool) -> Run:
    return Run(tmp_path, tool, KERNEL)


def trace_of(rows: Rows) -> bytes:
    return recording({"start": KERNEL.at(at), "count": count, "level": 1} for at, count in rows)


@pytest.mark.parametrize("interrupts", [1, 2])
@pytest.mark.parametrize("at", range(1, len(CALLS)))
def test_stacks(run: Run, at: int, interrupts: int) -> None:
    """The branches before them are a call, a call through a register, returns, and a tail call."""
    want = run.folded(trace_of(CALLS))
    assert want == {"top": 3, "top;middle": 4, "top;middle;last": 2, "top;last": 2}
    found = run.folded(trace_of((*CALLS[:at], *[IRQ] * interrupts, *CALLS[at:])))
    (below,) = [stack for stack in found if stack.endswith("vectors")]
    assert found.pop(below) == 2 * interrupts
    assert found == want


@pytest.mark.parametrize("at", range(1, len(CALLS)))
def test_call_trees(run: Run, at: int) -> None:
    def tree(rows: Rows) -> list[str]:
        lines = run("disasm", trace_of(rows), "--from", "top").out.splitlines()
        return [line.partition(" cpu 0 ")[2] for line in lines]

    want = ["top", "  middle", "    last", "  last"]
    assert tree(CALLS) == want
    found = tree((*CALLS[:at], IRQ, *CALLS[at:]))
    assert [line for line in found if "(exception)" not in line] == want
