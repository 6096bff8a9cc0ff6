"""``live hooks`` fails for what an audit calls wrong; reports of several machines merge."""

from __future__ import annotations

import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from textwrap import dedent

import pytest

from prologue.cli.main import main
from tests.live.hooks.hooked import saved
from tests.live.memory.test_running import fake_ssh
from tests.support.pasted import ROOT
from tests.support.tool import Tool


def test_a_callback_without_an_owner_fails(vmlinux: Path, tool: Tool) -> None:
    core = saved(vmlinux, {"hook": "orphan_text"})
    assert "PL509 hook-without-owner (fatal)" in tool("live", "hooks", vmlinux, core, "-q", status=1).out
    printed = tool("live", "hooks", vmlinux, core, "--json", status=1)
    assert [one["code"] for one in printed.json["findings"]] == ["PL509"]


def test_a_listener_of_an_unsigned_module_is_a_warning(vmlinux: Path, tool: Tool) -> None:
    core = saved(vmlinux, {"hook": "module_text", "loaded+632": 1 << 13 | 1 << 12})
    (finding,) = tool("live", "hooks", vmlinux, core, "--json").json["findings"]
    assert (finding["code"], finding["severity"]) == ("PL515", "warn")
    assert finding["message"].endswith("of the module good, which is unsigned and out-of-tree")


def test_reports_of_several_machines_merge(vmlinux: Path, tmp_path: Path) -> None:
    """The script of docs/live-hooks.md, on two machines of which one has another callback."""
    page = (ROOT / "docs" / "live-hooks.md").read_text(encoding="utf-8")
    lines = page[page.index("    import collections, json, sys") :].splitlines()
    script = dedent("\n".join(takewhile(str.strip, lines)))
    reports = []
    for name, changes in (("a", {}), ("b", {"hook": "replaced"})):
        core = saved(vmlinux, changes).rename(tmp_path / name)
        reports.append(tmp_path / f"{name}.json")
        assert main(["live", "hooks", str(vmlinux), str(core), "--json", "-o", str(reports[-1]), "-q"]) == 0
    said = subprocess.run([sys.executable, "-c", script, *reports], capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in said.splitlines()]
    assert [row[1:4] + row[-1:] for row in rows if row[0] == "1"] == [
        ["ftrace_ops", "", "vfs_read+0x4", "on_call"], ["ftrace_ops", "", "vfs_read+0x4", "replaced"],
    ]  # fmt: skip
    assert [row[0] for row in rows].count("2") == 6


def test_a_machine_that_is_silent(vmlinux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    fake_ssh(tmp_path, monkeypatch, "import time; time.sleep(60)")
    printed = tool("live", "hooks", vmlinux, "ssh:root@board", "--timeout", "1", status=2)
    assert "ssh:root@board: no answer within 1 s" in printed.err
