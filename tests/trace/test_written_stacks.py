"""Stacks where text is written while it is traced."""

from __future__ import annotations

from pathlib import Path

from prologue.insn.a64 import encode_b
from tests.support.tool import Tool
from tests.trace.made import MadeKernel, Run, recording
from tests.trace.test_history import MS, NOP, write, writes_file


def test_stacks_where_a_written_branch_ends_a_range_of_two_symbols(tmp_path: Path, tool: Tool) -> None:
    """As in ftrace_caller, whose ftrace_call is a symbol of its own and the place of a BL."""
    kernel = MadeKernel(
        {
            "caller": ["nop", "bl ftrace_caller", "nop", "ret"],
            "ftrace_caller": ["nop", "nop", "nop", "nop"],
            "ftrace_call": ["nop", "nop", "ret"],
            "tracer": ["nop", "ret"],
        }
    )
    place = kernel.at("ftrace_call")
    bl = encode_b(place, kernel.at("tracer")) | 1 << 31
    writes = writes_file(tmp_path, write(2000 * MS, bl, NOP, place))
    spans = [("caller", 2), ("ftrace_caller", 5), ("tracer", 2), ("ftrace_call+4", 2), ("caller+8", 2)]
    trace = recording({"start": kernel.at(at), "count": n, "level": 1, "time": 4000 * MS} for at, n in spans)
    assert Run(tmp_path, tool, kernel).folded(trace, "--writes", writes) == {
        "caller": 4, "caller;ftrace_caller": 4, "caller;ftrace_call": 3, "caller;ftrace_call;tracer": 2
    }  # fmt: skip
