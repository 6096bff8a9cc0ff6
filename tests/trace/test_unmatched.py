"""Filters that match nothing of a trace are reported; options without effect are usage errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace.made import KERNEL, Run, perf_text, recording

TRACE = recording([
    {"start": KERNEL.at("vfs_read"), "count": 2, "cpu": 0, "level": 1, "time": 10**9},
    {"start": KERNEL.at("vfs_read+0x8"), "count": 1, "cpu": 0, "level": 1, "time": 2 * 10**9},
    {"start": KERNEL.at("vectors+0x80"), "count": 1, "cpu": 1, "level": 2, "time": 3 * 10**9},
])  # fmt: skip


UNMATCHED = {
    "cpu": (("--cpu", 99), "--cpu 99: the trace has no such CPU (it has CPUs 0, 1)"),
    "one of two CPUs": (("--cpu", 0, "--cpu", 7), "--cpu 7: the trace has no such CPU (it has CPUs 0, 1)"),
    "level": (("--level", 3), "--level 3: nothing ran at it (it has levels 1, 2)"),
    "time": (
        ("--time", "5,6"),
        "--time 5,6: no range of the trace is of that time (it is from 1.000000000 s to 3.000000000 s)",
    ),
    "between times": (
        ("--time", "1.5,1.6"),
        "--time 1.5,1.6: no range of the trace is of that time (it is from 1.000000000 s to 3.000000000 s)",
    ),
    "symbol": (("--symbols", "read_zero"), "--symbols read_zero: nothing of it ran"),
    "together": (("--cpu", 0, "--level", 2), "no range passes all of the filters together"),
}  # fmt: skip


@pytest.mark.parametrize("what", UNMATCHED)
@pytest.mark.parametrize("command", ["disasm", "stats"])
def test_a_filter_that_matches_nothing(run: Run, command: str, what: str) -> None:
    options, line = UNMATCHED[what]
    assert run(command, TRACE, *options).err.splitlines()[0] == f"note: {line}"
    printed = run(command, TRACE, "--cpu", 0, "--level", 1, "--time", "1,2", "--symbols", "vfs_read")
    assert printed.err == "note: 2 ranges (2 distinct), 3 instructions, 1 CPU, 0 gaps\n"


def test_what_a_trace_does_not_say(run: Run) -> None:
    text = perf_text([("vfs_read+0x10", "read_zero"), ("read_zero+0x10", "read_zero+0x18")])
    assert "--level 1: nothing ran at it (it says no levels)" in run("stats", text, "--level", 1).err
    untimed = recording([{"start": KERNEL.at("vfs_read"), "count": 2}])
    assert "(it has no times)" in run("stats", untimed, "--time", "1,2").err


def test_a_root_that_was_not_entered(run: Run) -> None:
    err = run("disasm", TRACE, "--from", "read_zero", "--from", "vfs_read").err
    assert err.count("was not entered") == 1
    assert "--from read_zero: it was not entered" in err


def test_a_guest_of_which_no_range_is(run: Run, tmp_path: Path) -> None:
    guest = KERNEL.write(tmp_path / "guest")
    for command in ("check", "disasm", "stats"):
        err = run(command, TRACE, "--guest-vmlinux", f"{guest}@7", status=None).err
        assert f"--guest-vmlinux {guest}@7: the trace has no range of that guest" in err


@pytest.mark.parametrize(
    ("command", "options", "why"),
    [
        ("disasm", ("--depth", 3), "--depth is for --from"),
        ("stats", ("--json", "--top", 3), "--top is for the table"),
        ("disasm", ("--from", "vfs_read", "--format", "perf"), "--from prints call trees"),
    ],
)
def test_an_option_without_effect(run: Run, command: str, options: tuple[object, ...], why: str) -> None:
    err = run(command, TRACE, *options, status=2).err
    assert why in err
    assert len(err.splitlines()) == 1
