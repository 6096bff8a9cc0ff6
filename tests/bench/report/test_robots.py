"""The forms of test robots: 0day's table and KTAP, of recorded samples."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.support.result_sets import BASE, BUILD, CONTROL, Made, boots, campaign, make, make_exact, write

Said = pytest.CaptureFixture[str]


def compared(name: str, form: str, capsys: Said) -> list[str]:
    assert main(["bench", "compare", name, "--format", form]) == 0
    return capsys.readouterr().out.splitlines()


def test_0day(capsys: Said) -> None:
    assert compared("example:2019-a53", "0day", capsys) == [
        "         nop;nop               mov x9,lr;nop",
        "---------------- ---------------------------",
        "         %stddev    %change          %stddev",
        "               \\          |                \\",
        "    43.906 \u00b1  0%      +2.1%     44.971 \u00b1  1%  hackbench.seconds",
        "# hackbench.seconds: mov x9,lr;nop: different, 2.1% slower (p < 0.0001)",
    ]


def test_0day_of_a_variant_of_which_no_boot_counts(tmp_path: Path, capsys: Said) -> None:
    made = Made(pairs=6)
    recorded = [replace(boot, void="lost" if boot.variant == BUILD else None) for boot in boots(made)]
    lines = compared(str(write(tmp_path / "void", campaign(made), recorded)), "0day", capsys)
    assert lines[-1] == f"# hackbench-sockets.seconds: {BUILD}: no boot counts"


def test_0day_has_a_label_on_one_line(tmp_path: Path, capsys: Said) -> None:
    table = {"label": "w", "unit": "s", "direction": "lower", "samples": {"a": [5, 6], "b\nc": [5, 7]}}
    (tmp_path / "t.json").write_text(json.dumps(table))
    assert compared(str(tmp_path / "t.json"), "0day", capsys)[0].split() == ["a", "b\\nc"]


def test_ktap(tmp_path: Path, capsys: Said) -> None:
    lines = compared(str(make(tmp_path / "slower", Made(effects={BUILD: 0.03}))), "ktap", capsys)
    assert lines[:3] == ["KTAP version 1", "1..2", "  KTAP version 1"]
    assert [line for line in lines if line.lstrip().startswith(("ok", "not ok"))] == [
        f"  ok 1 {CONTROL}",
        f"  not ok 2 {BUILD}",
        "not ok 1 hackbench, sockets",
        f"  ok 1 {BASE}",
        f"  ok 2 {CONTROL}",
        f"  ok 3 {BUILD}",
        "ok 2 boots",
    ]
    values = [line for line in lines if ": value " in line]
    assert len(values) == 3
    assert all("unit seconds, variance " in line and line.endswith("n 12") for line in values)
    lines = compared(str(make(tmp_path / "equal")), "ktap", capsys)
    assert "ok 1 hackbench, sockets" in lines


def test_no_verdict_is_a_skip(tmp_path: Path, capsys: Said) -> None:
    lines = compared(str(make(tmp_path / "few", Made(pairs=3))), "ktap", capsys)
    assert any(f"ok 2 {BUILD} # SKIP {BUILD}: too few boots" in line for line in lines)
    assert "ok 1 hackbench, sockets # SKIP no verdict" in lines


def test_a_variant_of_which_no_boot_counts_is_a_skip(tmp_path: Path, capsys: Said) -> None:
    made = Made(pairs=6)
    recorded = [replace(boot, void="lost: hung" if boot.variant == BUILD else None) for boot in boots(made)]
    lines = compared(str(write(tmp_path / "void", campaign(made), recorded)), "ktap", capsys)
    assert "  1..2" in lines
    assert f"  ok 2 {BUILD} # SKIP no boot counts" in lines
    assert "ok 1 hackbench, sockets # SKIP no verdict" in lines
    assert lines[2].startswith(f"# NO VERDICT: {BUILD} was lost in 6 of 6 boots, nop;nop in 0 of 6")
    assert lines[-3:] == [f"  # {BUILD} was lost in 6 of 6 boots", f"  not ok 3 {BUILD}", "not ok 2 boots"]


def test_a_hash_sign_begins_no_directive(tmp_path: Path, capsys: Said) -> None:
    table = {"label": "w #1", "unit": "s", "direction": "lower", "samples": {"a": [5, 6, 7], "# SKIP it": [5, 6, 8]}}
    (tmp_path / "t.json").write_text(json.dumps(table))
    results = [line.strip() for line in compared(str(tmp_path / "t.json"), "ktap", capsys) if "ok 1 " in line]
    assert [line.partition(" #")[0] for line in results] == ["ok 1 \\x23 SKIP it", "ok 1 w \\x231"]


@pytest.mark.parametrize("form", ["0day", "ktap"])
def test_exact_counts_have_no_percentages(form: str, tmp_path: Path, capsys: Said) -> None:
    results = make_exact(tmp_path / "exact", {"nop;nop": 5, BUILD: 6})
    assert main(["bench", "compare", str(results), "--format", form]) == 2
    assert f"--format {form}: exact evidence has no percentages" in capsys.readouterr().err
