"""Stacks where another task begins to run: both tasks called the scheduler from the same place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tool import Tool
from tests.trace.made import MadeKernel, Run, perf_text, recording

SCHEDULER = MadeKernel(
    {
        "vectors": ["nop", "bl schedule", "eret", *["nop"] * 29] * 16,
        "sys_read": ["nop", "bl wait", "ret"],
        "sys_write": ["nop", "bl wait", "ret"],
        "wait": ["nop", "bl schedule", "ret"],
        "schedule": ["nop", "bl cpu_switch_to", "nop", "ret"],
        "cpu_switch_to": ["nop", "nop", "ret"],
    }
)
OUT = (("wait", 2), ("schedule", 2), ("cpu_switch_to", 2))
BACK = (("cpu_switch_to+8", 1), ("schedule+8", 2), ("wait+8", 1))
Rows = list[tuple[int, str, int]]


@pytest.fixture
def run(tmp_path: Path, tool: Tool) -> Run:
    return Run(tmp_path, tool, SCHEDULER)


def trace_of(rows: Rows) -> bytes:
    """A recording of rows of (task, place, count)."""
    return recording(
        {"start": SCHEDULER.at(place), "count": count, "level": 1, "task": task} for task, place, count in rows
    )


def test_a_task_has_no_callers_of_the_one_before_it(run: Run) -> None:
    rows: Rows = [(1, at, count) for at, count in (("sys_read", 2), *OUT)]
    rows += [(2, at, count) for at, count in (*BACK, ("sys_write+8", 1))]
    found = run.folded(trace_of(rows))
    assert found == {
        "task 1;sys_read": 2, "task 1;sys_read;wait": 2, "task 1;sys_read;wait;schedule": 2,
        "task 1;sys_read;wait;schedule;cpu_switch_to": 2,
        "task 2;cpu_switch_to": 1, "task 2;schedule": 2, "task 2;wait": 1, "task 2;sys_write": 1,
    }  # fmt: skip


def test_nor_where_the_trace_has_no_tasks(run: Run) -> None:
    rows: Rows = [(0, at, count) for at, count in (("sys_read", 2), *OUT, *BACK, ("sys_write+8", 1))]
    found = run.folded(trace_of(rows))
    assert (found["schedule"], found["wait"], found["sys_write"]) == (2, 1, 1)
    assert found["sys_read;wait;schedule"] == 2


def test_nor_after_an_interrupt_in_both(run: Run) -> None:
    """Each was interrupted, and the interrupt's end chose the other one."""
    irq = ("vectors+0x280", 2)
    rows: Rows = [(1, at, count) for at, count in (("sys_read", 2), ("wait", 1), irq, *OUT[1:])]
    rows += [(2, at, count) for at, count in (*BACK[:2], ("vectors+0x288", 1), ("sys_write", 2), ("wait", 2))]
    found = run.folded(trace_of(rows))
    assert {stack for stack in found if stack.startswith("task 2")} == {
        "task 2;cpu_switch_to", "task 2;schedule", "task 2;vectors", "task 2;sys_write", "task 2;sys_write;wait"
    }  # fmt: skip


def test_a_call_tree_says_where_another_task_cuts_it_off(run: Run) -> None:
    rows: Rows = [(1, at, count) for at, count in (("sys_read", 2), *OUT)]
    trace = trace_of([*rows, *((2, at, count) for at, count in (*BACK, ("sys_write+8", 1)))])
    printed = run("disasm", trace, "--from", "sys_read")
    lines = [line.partition(" cpu 0 ")[2] for line in printed.out.splitlines()]
    assert lines == ["sys_read", "  wait", "    schedule", "      cpu_switch_to", "(another task)"]
    for task, shown in ((1, lines), (2, [])):  # also if the other task is not to be printed, and only then
        printed = run("disasm", trace, "--from", "sys_read", "--pid", task)
        assert [line.partition(" cpu 0 ")[2] for line in printed.out.splitlines()] == shown


def test_a_new_name_is_no_other_task(tmp_path: Path, tool: Tool) -> None:
    """``execve`` gives the same task another name."""
    text = perf_text([("vfs_read+32", "vfs_read"), ("vfs_read+16", "read_zero")], comm="sh")
    text += perf_text([("read_zero+16", "read_zero+24"), ("read_zero+24", "vfs_read+20")], comm="cat")
    found = Run(tmp_path, tool).folded(text)
    assert {stack: count for stack, count in found.items() if stack.startswith("cat")} == {
        "cat 77;vfs_read;read_zero": 6
    }
