"""Stacks where an interrupt comes between a branch and the first instruction there: after it they are as without it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.support.tool import Tool
from tests.trace.made import MadeKernel, recording

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


def trace_of(rows: Rows, tmp_path: Path) -> list[str]:
    trace = tmp_path / "trace"
    trace.write_bytes(recording({"start": KERNEL.at(at), "count": count, "level": 1} for at, count in rows))
    return [str(trace), "--vmlinux", str(KERNEL.write(tmp_path / "vmlinux"))]


def stacks(rows: Rows, tmp_path: Path) -> Counter[str]:
    out = tmp_path / "out"
    assert main(["trace", "export", *trace_of(rows, tmp_path), "--format", "folded", "-o", str(out)]) == 0
    return Counter({stack: int(count) for stack, _, count in (x.rpartition(" ") for x in out.read_text().splitlines())})


@pytest.mark.parametrize("interrupts", [1, 2])
@pytest.mark.parametrize("at", range(1, len(CALLS)))
def test_stacks(at: int, interrupts: int, tmp_path: Path) -> None:
    """The branches before them are a call, a call through a register, returns, and a tail call."""
    want = stacks(CALLS, tmp_path)
    assert want == {"top": 3, "top;middle": 4, "top;middle;last": 2, "top;last": 2}
    found = stacks((*CALLS[:at], *[IRQ] * interrupts, *CALLS[at:]), tmp_path)
    (below,) = [stack for stack in found if stack.endswith("vectors")]
    assert found.pop(below) == 2 * interrupts
    assert found == want


@pytest.mark.parametrize("at", range(1, len(CALLS)))
def test_call_trees(at: int, tmp_path: Path, tool: Tool) -> None:
    def tree(rows: Rows) -> list[str]:
        return [
            line.partition(" cpu 0 ")[2]
            for line in tool("trace", "disasm", *trace_of(rows, tmp_path), "--from", "top").out.splitlines()
        ]

    want = ["top", "  middle", "    last", "  last"]
    assert tree(CALLS) == want
    found = tree((*CALLS[:at], IRQ, *CALLS[at:]))
    assert [line for line in found if "(exception)" not in line] == want
