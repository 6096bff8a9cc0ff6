"""Figures for the mail: every one says what it is of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.support.result_sets import BASE, BUILD, BUILD_ID, CONTROL, Made, boots, campaign, make, make_exact, write
from tests.support.tool import Tool


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
