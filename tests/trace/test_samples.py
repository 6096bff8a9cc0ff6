"""Instruction samples of perf between its branches: what is made of the branches is as without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.trace.made import KERNEL, perf_line, perf_text
from tests.trace.test_check import STEPS


def sample(time: int) -> str:
    line = perf_line(KERNEL.at("vfs_read+4"), 0, time=time, event="instructions:k")
    return line.partition(" => ")[0] + "\n"


def test_they_take_no_time_and_end_no_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vmlinux, trace, out = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "trace", tmp_path / "out"
    lines = perf_text(STEPS * 2).splitlines(keepends=True)
    results = []
    for mixed in (False, True):
        trace.write_text("".join(line + sample(10**9 + 1000 * k) * (mixed and k > 0) for k, line in enumerate(lines)))
        where = [str(trace), "--vmlinux", str(vmlinux)]
        assert main(["trace", "export", *where, "--format", "perfetto", "-o", str(out)]) == 0
        assert ("23 instruction samples: not counted" in capsys.readouterr().err) == mixed
        assert main(["trace", "stats", *where, "--times"]) == 0
        results.append((out.read_bytes(), capsys.readouterr().out))
    assert results[0] == results[1]


def test_they_take_no_gap(tmp_path: Path) -> None:
    """A range that runs through a return did not run: what was before it did not call what came after it."""
    vmlinux, trace, out = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "trace", tmp_path / "out"
    calls = [("vfs_read", "vfs_read"), ("vfs_read+16", "read_zero")]
    lines = perf_text([*calls, ("read_zero+28", "read_zero"), ("read_zero+16", "vfs_read")]).splitlines(keepends=True)
    lines.insert(3, sample(10**9 + 2000))
    trace.write_text("".join(lines))
    assert main(["trace", "export", str(trace), "--vmlinux", str(vmlinux), "--format", "folded", "-o", str(out)]) == 0
    assert out.read_text().splitlines() == ["cat 77;vfs_read 5", "cat 77;read_zero 5"]


def test_a_cpu_of_samples_alone_hides_no_gap_of_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vmlinux, trace = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "trace"
    lines = perf_text([*STEPS, (0, "vfs_read"), *STEPS[1:]]).splitlines(keepends=True)
    trace.write_text("".join([*lines[:3], sample(10**9 + 2000).replace("[000]", "[001]"), *lines[3:]]))
    assert main(["trace", "disasm", str(trace), "--vmlinux", str(vmlinux)]) == 0
    assert "2 CPUs, 1 gap\n" in capsys.readouterr().err
