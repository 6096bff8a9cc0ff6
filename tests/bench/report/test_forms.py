"""Other forms of a report: KTAP of recorded samples, and figures for the mail."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.support.result_sets import BASE, BUILD, BUILD_ID, CONTROL, Made, boots, campaign, make, make_exact, write
from tests.support.tool import Tool


def compared(name: str, tool: Tool) -> list[str]:
    return tool("bench", "compare", name, "--format", "ktap").out.splitlines()


def test_ktap(tmp_path: Path, tool: Tool) -> None:
    lines = compared(str(make(tmp_path / "slower", Made(effects={BUILD: 0.03}))), tool)
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
    lines = compared(str(make(tmp_path / "equal")), tool)
    assert "ok 1 hackbench, sockets" in lines


def test_no_verdict_is_a_skip(tmp_path: Path, tool: Tool) -> None:
    lines = compared(str(make(tmp_path / "few", Made(pairs=3))), tool)
    assert any(f"ok 2 {BUILD} # SKIP {BUILD}: too few boots" in line for line in lines)
    assert "ok 1 hackbench, sockets # SKIP no verdict" in lines


def test_a_variant_of_which_no_boot_counts_is_a_skip(tmp_path: Path, tool: Tool) -> None:
    made = Made(pairs=6)
    recorded = [replace(boot, void="lost: hung" if boot.variant == BUILD else None) for boot in boots(made)]
    lines = compared(str(write(tmp_path / "void", campaign(made), recorded)), tool)
    assert "  1..2" in lines
    assert f"  ok 2 {BUILD} # SKIP no boot counts" in lines
    assert "ok 1 hackbench, sockets # SKIP no verdict" in lines
    assert lines[2].startswith(f"# NO VERDICT: {BUILD} was lost in 6 of 6 boots, nop;nop in 0 of 6")
    assert lines[-3:] == [f"  # {BUILD} was lost in 6 of 6 boots", f"  not ok 3 {BUILD}", "not ok 2 boots"]


def test_a_hash_sign_begins_no_directive(tmp_path: Path, tool: Tool) -> None:
    table = {"label": "w #1", "unit": "s", "direction": "lower", "samples": {"a": [5, 6, 7], "# SKIP it": [5, 6, 8]}}
    (tmp_path / "t.json").write_text(json.dumps(table))
    results = [line.strip() for line in compared(str(tmp_path / "t.json"), tool) if "ok 1 " in line]
    assert [line.partition(" #")[0] for line in results] == ["ok 1 \\x23 SKIP it", "ok 1 w \\x231"]


def test_exact_counts_have_no_percentages(tmp_path: Path, tool: Tool) -> None:
    results = make_exact(tmp_path / "exact", {"nop;nop": 5, BUILD: 6})
    printed = tool("bench", "compare", results, "--format", "ktap", status=2)
    assert "--format ktap: exact evidence has no percentages" in printed.err


def test_a_figure_names_its_kernel_compiler_machine_and_file(tmp_path: Path, tool: Tool) -> None:
    made = Made(effects={BUILD: 0.03})
    recorded = [replace(boot, gate_before={"compiler": "gcc 14.2.0, GNU ld 2.44"}) for boot in boots(made)]
    directory = str(write(tmp_path / "results", campaign(made), recorded))
    data = tool("bench", "export", directory, "--for-mail").json
    (figure,) = data["figures"]
    assert (figure["variant"], figure["base"], figure["verdict"]) == (BUILD, BASE, "different")
    assert figure["kernel"]["build_id"] == BUILD_ID
    assert (figure["compiler"], figure["machine"]["cpu"]) == ("gcc 14.2.0, GNU ld 2.44", "Cortex-A57")
    assert figure["files"] == [directory]
    text = " ".join(" ".join(data["lines"]).split())
    assert "different, 3.1% slower" in text or "different, 3.0% slower" in text
    assert "compiler: gcc 14.2.0, GNU ld 2.44" in text
    assert CONTROL not in text
    assert max(map(len, data["lines"])) <= 75


def test_exact_counts_are_figures_and_smoke_is_none(tmp_path: Path, tool: Tool) -> None:
    printed = tool("bench", "export", make_exact(tmp_path / "exact", {BASE: 48, BUILD: 32}), "--for-mail")
    (figure,) = printed.json["figures"]
    assert (figure["difference"], figure["compiler"]) == (-16, None)
    printed = tool("bench", "export", make(tmp_path / "smoke", Made(evidence="smoke")), "--for-mail", status=2)
    assert "smoke evidence gives no figure" in printed.err
