"""``live hooks`` fails for what an audit calls wrong, and with ``--expect`` for listeners that nobody knows."""

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

ALL = ("ftrace_ops", "kprobe", "kretprobe", "livepatch", "tracepoint", "tracer")
ENTRY = '[[expected]]\nkind = "{}"\nreason = "of our tracing"\nowner = "kernel team"\n'


def expect(vmlinux: Path, text: str) -> Path:
    path = vmlinux.with_name("hooks.toml")
    path.write_text(text)
    return path


def test_a_callback_without_an_owner_fails(vmlinux: Path, tool: Tool) -> None:
    core = saved(vmlinux, {"hook": "orphan_text"})
    assert "PL509 hook-without-owner (fatal)" in tool("live", "hooks", vmlinux, core, "-q", status=1).out
    printed = tool("live", "hooks", vmlinux, core, "--json", status=1)
    assert [one["code"] for one in printed.json["findings"]] == ["PL509"]


@pytest.mark.parametrize(
    ("kinds", "more", "new"),
    [
        pytest.param(ALL, "", 0, id="all are known"),
        pytest.param(ALL[1:], "", 1, id="an ftrace_ops is new"),
        pytest.param(ALL[1:], ENTRY.format("ftrace_ops") + 'where = "vfs_*"\ncalls = "on_*"\n', 0, id="by globs"),
        pytest.param(ALL[1:], ENTRY.format("ftrace_ops") + 'where = "ksys_*"\n', 1, id="another place"),
        pytest.param(ALL[1:], ENTRY.format("ftrace_ops") + 'calls = "other"\n', 1, id="another function"),
    ],
)
def test_what_is_not_expected_is_new(kinds: tuple[str, ...], more: str, new: int, vmlinux: Path, tool: Tool) -> None:
    path = expect(vmlinux, "".join(map(ENTRY.format, kinds)) + more)
    command = ["live", "hooks", str(vmlinux), str(saved(vmlinux)), "--expect", str(path)]
    lines = tool(*command, status=1 if new else 0).out.splitlines()
    assert sum(line.startswith("new: ftrace_ops vfs_read") for line in lines) == new
    assert f"7 listeners, {new} of them new" in lines[-1]
    assert sum(line.startswith("expected, and not there: ") for line in lines) == (1 if more and new else 0)
    expected = [one["expected"] for one in tool(*command, "--json", status=1 if new else 0).json["listeners"]]
    assert expected.count(None) == new
    assert set(expected) - {None} == {"of our tracing"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            '[[expected]]\nkind = "kprobe"\nowner = "me"\n', "number 1: reason is missing or empty", id="reason"
        ),
        pytest.param(ENTRY.format("kprobe") + "count = 1\n", "number 1: 'count' is no text with one of", id="key"),
        pytest.param("[[known]]\n", "expected a list of [[expected]]", id="a baseline of verify"),
        pytest.param("[[", "is not valid TOML", id="syntax"),
    ],
)
def test_a_file_that_is_wrong(text: str, said: str, vmlinux: Path, tool: Tool) -> None:
    assert said in tool("live", "hooks", vmlinux, "core", "--expect", expect(vmlinux, text), status=2).err


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
