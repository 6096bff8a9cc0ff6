"""Users of the function graph of small kernels: before 6.10 there is one at most."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prologue.cli.main import main
from tests.live.hooks.hooked import make, saved
from tests.support.elf_edit import ElfEdit

USED = {"__ftrace_graph_entry": "on_probe", "ftrace_graph_return": "on_return"}


@pytest.fixture(scope="module")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("former"), "-DFORMER")


def graphs(vmlinux: Path, changes: dict[str, str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    elf = ElfEdit(vmlinux)
    capsys.readouterr()
    core = saved(vmlinux, {place: elf.value(name) for place, name in changes.items()})
    main(["live", "hooks", str(vmlinux), str(core), "--json"])
    return [one for one in json.loads(capsys.readouterr().out)["listeners"] if one["kind"] == "function graph"]


def test_the_test_of_an_unused_graph_is_no_listener(former: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``update_function_graph_func`` (kernel/trace/fgraph.c) puts it there as soon as any ftrace_ops is registered."""
    assert graphs(former, {}, capsys) == []


@pytest.mark.parametrize("more", [{}, {"ftrace_graph_entry": "on_probe"}])
def test_the_user_of_a_graph(former: Path, more: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """With the test before its entry, and without; its functions are those of ``set_ftrace_filter``."""
    (user,) = graphs(former, USED | more, capsys)
    assert [(call["role"], call["symbol"]) for call in user["calls"]] == [("entry", "on_probe"), ("return", "on_return")]
    assert user["functions"] == ["vfs_read+0x4"]
