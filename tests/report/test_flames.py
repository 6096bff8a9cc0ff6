"""Flame graphs: every function is there, as wide as its share; equal stacks make equal files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.report.flames import place_bars, plot_flames
from tests.support.needs import needs_module
from tests.trace.made import KERNEL, perf_text

LINES = ["[user] 10", "vfs_read 30", "vfs_read;read_zero 50", "vfs_read;read_zero;memset 10", "rare 0"]


def test_bars_are_as_wide_as_their_share() -> None:
    bars = {bar.name: (bar.depth, round(bar.left, 3), round(bar.width, 3)) for bar in place_bars(LINES)}
    assert bars == {
        "[user]": (0, 0.0, 0.1), "vfs_read": (0, 0.1, 0.9), "read_zero": (1, 0.1, 0.6), "memset": (2, 0.1, 0.1),
    }  # fmt: skip


def test_what_is_too_narrow_to_see_is_left_out() -> None:
    assert [bar.name for bar in place_bars(["much 99999", "little 1"])] == ["much"]
    assert list(place_bars([])) == []


def test_the_picture_names_them(tmp_path: Path) -> None:
    needs_module("matplotlib")
    paths = tmp_path / "a.svg", tmp_path / "b.svg"
    for path in paths:
        plot_flames(LINES, "a title <&>", path)
    text = paths[0].read_text()
    assert text == paths[1].read_text()
    assert re.findall(r">([a-z_\[\]]+)</text>", text).count("read_zero") == 1
    assert "a title &lt;&amp;&gt;" in text


def test_dollars_are_no_formula(tmp_path: Path) -> None:
    needs_module("matplotlib")
    plot_flames(["the_$a^^$_one 10", "other 5"], "run $a^^$.txt", tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert ">run $a^^$.txt</text>" in text
    assert ">the_$a^^$_one</text>" in text


def test_stats_draws_what_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs_module("matplotlib")
    vmlinux, trace, out = KERNEL.write(tmp_path / "vmlinux"), tmp_path / "trace", tmp_path / "out.svg"
    trace.write_text(perf_text([("read_zero+0x18", "vfs_read"), ("vfs_read+0x10", "read_zero"),
                                ("read_zero+0x18", "vfs_read+0x14")] * 3))  # fmt: skip
    args = ["trace", "stats", str(trace), "--vmlinux", str(vmlinux), "--flames"]
    assert main([*args, str(out)]) == 0
    assert ">read_zero</text>" in out.read_text()
    assert main([*args, str(tmp_path / "out.txt")]) == 2
    assert "a picture ends in" in capsys.readouterr().err
    assert main([*args, str(trace)]) == 2
