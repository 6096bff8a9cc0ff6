"""Users of the function graph of small kernels: before 6.10 there is one at most."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.live.hooks.hooked import hooks, of_kind
from tests.support.tool import Tool

USED = {"__ftrace_graph_entry": "on_probe", "ftrace_graph_return": "on_return"}


def called(listener: dict[str, Any]) -> list[tuple[str, str]]:
    """Roles and symbols of what it calls."""
    return [(call["role"], call["symbol"]) for call in listener["calls"]]


def graphs(vmlinux: Path, changes: Mapping[str, str], tool: Tool) -> list[dict[str, Any]]:
    return of_kind(hooks(vmlinux, dict(changes), tool), "function graph")


def test_the_test_of_an_unused_graph_is_no_listener(former: Path, tool: Tool) -> None:
    """``update_function_graph_func`` (kernel/trace/fgraph.c) puts it there as soon as any ftrace_ops is registered."""
    assert graphs(former, {}, tool) == []


@pytest.mark.parametrize("filtered", [False, True])
def test_users_of_a_graph(vmlinux: Path, filtered: bool, tool: Tool) -> None:
    """Since 6.10, also where ``set_ftrace_pid`` puts a function before each entry."""
    changes = {"fgraph_array+8": "user", **({"user+8": "fgraph_pid_func"} if filtered else {})}
    (user,) = graphs(vmlinux, changes, tool)
    test = [("pid filter", "fgraph_pid_func")] if filtered else []
    assert called(user) == [*test, ("entry", "on_probe"), ("return", "on_return")]
    assert user["functions"] == ["vfs_read+0x4"]


@pytest.mark.parametrize("more", [{}, {"ftrace_graph_entry": "on_probe"}])
def test_the_user_of_a_graph(former: Path, more: dict[str, str], tool: Tool) -> None:
    """With the test before its entry, and without; its functions are those of ``set_ftrace_filter``."""
    (user,) = graphs(former, USED | more, tool)
    assert called(user) == [("entry", "on_probe"), ("return", "on_return")]
    assert user["functions"] == ["vfs_read+0x4"]
