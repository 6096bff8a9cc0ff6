"""Filters that match nothing of a trace are reported; options without effect are usage errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.trace.made import KERNEL, perf_text, recording

ROWS = [
    {"start": KERNEL.at("vfs_read"), "count": 2, "cpu": 0, "level": 1, "time": 10**9},
    {"start": KERNEL.at("vfs_read+0x8"), "count": 1, "cpu": 0, "level": 1, "time": 2 * 10**9},
    {"start": KERNEL.at("vectors+0x80"), "count": 1, "cpu": 1, "level": 2, "time": 3 * 10**9},
]


def run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, *options: object, trace: str | bytes = b""
) -> tuple[int, str]:
    vmlinux, path = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "trace"
    content = trace or recording(ROWS)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    code = main(["trace", command, str(path), "--vmlinux", str(vmlinux), *map(str, options)])
    return code, capsys.readouterr().err


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
def test_a_filter_that_matches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, what: str
) -> None:
    options, line = UNMATCHED[what]
    code, err = run(tmp_path, capsys, command, *options)
    assert code == 0
    assert err.splitlines()[0] == f"note: {line}"
    assert run(tmp_path, capsys, command, "--cpu", 0, "--level", 1, "--time", "1,2", "--symbols", "vfs_read")[1] == (
        "note: 2 ranges (2 distinct), 3 instructions, 1 CPU, 0 gaps\n"
    )


def test_what_a_trace_does_not_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = perf_text([("vfs_read+0x10", "read_zero"), ("read_zero+0x10", "read_zero+0x18")])
    assert (
        "--level 1: nothing ran at it (it says no levels)"
        in run(tmp_path, capsys, "stats", "--level", 1, trace=text)[1]
    )
    untimed = recording([{"start": KERNEL.at("vfs_read"), "count": 2}])
    assert "(it has no times)" in run(tmp_path, capsys, "stats", "--time", "1,2", trace=untimed)[1]


def test_a_root_that_was_not_entered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, err = run(tmp_path, capsys, "disasm", "--from", "read_zero", "--from", "vfs_read")
    assert (code, err.count("was not entered")) == (0, 1)
    assert "--from read_zero: it was not entered" in err


def test_a_guest_of_which_no_range_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guest = KERNEL.write(tmp_path / "guest")
    for command in ("check", "disasm", "stats"):
        err = run(tmp_path, capsys, command, "--guest-vmlinux", f"{guest}@7")[1]
        assert f"--guest-vmlinux {guest}@7: the trace has no range of that guest" in err


@pytest.mark.parametrize(
    ("command", "options", "why"),
    [
        ("disasm", ("--depth", 3), "--depth is for --from"),
        ("stats", ("--json", "--top", 3), "--top is for the table"),
        ("disasm", ("--from", "vfs_read", "--format", "perf"), "--from prints call trees"),
    ],
)
def test_an_option_without_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, options: tuple[object, ...], why: str
) -> None:
    code, err = run(tmp_path, capsys, command, *options)
    assert code == 2
    assert why in err
    assert len(err.splitlines()) == 1
