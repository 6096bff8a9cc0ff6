"""Stacks where another task begins to run: both tasks called the scheduler from the same place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from prologue.cli.main import main
from tests.support.tool import Tool
from tests.trace.made import KERNEL, MadeKernel, perf_text, recording

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


def stacks(rows: Rows, tmp_path: Path, *, tasks: bool = True) -> Counter[str]:
    """Folded stacks of rows of (task, place, count)."""
    trace, out = tmp_path / "trace", tmp_path / "out"
    trace.write_bytes(
        recording(
            {"start": SCHEDULER.at(place), "count": count, "level": 1, "task": task if tasks else 0}
            for task, place, count in rows
        )
    )
    vmlinux = SCHEDULER.write(tmp_path / "vmlinux")
    assert main(["trace", "export", str(trace), "--vmlinux", str(vmlinux), "--format", "folded", "-o", str(out)]) == 0
    return Counter({stack: int(count) for stack, _, count in (x.rpartition(" ") for x in out.read_text().splitlines())})


def test_a_task_has_no_callers_of_the_one_before_it(tmp_path: Path) -> None:
    rows: Rows = [(1, at, count) for at, count in (("sys_read", 2), *OUT)]
    rows += [(2, at, count) for at, count in (*BACK, ("sys_write+8", 1))]
    found = stacks(rows, tmp_path)
    assert found == {
        "task 1;sys_read": 2, "task 1;sys_read;wait": 2, "task 1;sys_read;wait;schedule": 2,
        "task 1;sys_read;wait;schedule;cpu_switch_to": 2,
        "task 2;cpu_switch_to": 1, "task 2;schedule": 2, "task 2;wait": 1, "task 2;sys_write": 1,
    }  # fmt: skip


def test_nor_where_the_trace_has_no_tasks(tmp_path: Path) -> None:
    rows: Rows = [(0, at, count) for at, count in (("sys_read", 2), *OUT, *BACK, ("sys_write+8", 1))]
    found = stacks(rows, tmp_path, tasks=False)
    assert (found["schedule"], found["wait"], found["sys_write"]) == (2, 1, 1)
    assert found["sys_read;wait;schedule"] == 2


def test_nor_after_an_interrupt_in_both(tmp_path: Path) -> None:
    """Each was interrupted, and the interrupt's end chose the other one."""
    irq = ("vectors+0x280", 2)
    rows: Rows = [(1, at, count) for at, count in (("sys_read", 2), ("wait", 1), irq, *OUT[1:])]
    rows += [(2, at, count) for at, count in (*BACK[:2], ("vectors+0x288", 1), ("sys_write", 2), ("wait", 2))]
    found = stacks(rows, tmp_path)
    assert {stack for stack in found if stack.startswith("task 2")} == {
        "task 2;cpu_switch_to", "task 2;schedule", "task 2;vectors", "task 2;sys_write", "task 2;sys_write;wait"
    }  # fmt: skip


def test_a_call_tree_says_where_another_task_cuts_it_off(tmp_path: Path, tool: Tool) -> None:
    rows: Rows = [(1, at, count) for at, count in (("sys_read", 2), *OUT)]
    stacks([*rows, *((2, at, count) for at, count in (*BACK, ("sys_write+8", 1)))], tmp_path)
    where = [str(tmp_path / "trace"), "--vmlinux", str(tmp_path / "vmlinux")]
    printed = tool("trace", "disasm", *where, "--from", "sys_read")
    lines = [line.partition(" cpu 0 ")[2] for line in printed.out.splitlines()]
    assert lines == ["sys_read", "  wait", "    schedule", "      cpu_switch_to", "(another task)"]
    for task, shown in ((1, lines), (2, [])):  # also if the other task is not to be printed, and only then
        printed = tool("trace", "disasm", *where, "--from", "sys_read", "--pid", task)
        assert [line.partition(" cpu 0 ")[2] for line in printed.out.splitlines()] == shown


def test_a_new_name_is_no_other_task(tmp_path: Path) -> None:
    """``execve`` gives the same task another name."""
    trace, out = tmp_path / "trace", tmp_path / "out"
    vmlinux = KERNEL.write(tmp_path / "vmlinux")
    text = perf_text([("vfs_read+32", "vfs_read"), ("vfs_read+16", "read_zero")], comm="sh")
    trace.write_text(text + perf_text([("read_zero+16", "read_zero+24"), ("read_zero+24", "vfs_read+20")], comm="cat"))
    assert main(["trace", "export", str(trace), "--vmlinux", str(vmlinux), "--format", "folded", "-o", str(out)]) == 0
    found = out.read_text().splitlines()
    assert [line for line in found if line.startswith("cat")] == ["cat 77;vfs_read;read_zero 6"]
