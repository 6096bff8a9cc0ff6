"""``live hooks``: what is attached to a small kernel, and what cannot be read is said."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prologue.errors import UNDECIDED
from prologue.live.structs.variables import Variables
from prologue.rules.base import FAILING
from tests.live.hooks.hooked import Values, saved
from tests.support.tool import Tool


def hooks(vmlinux: Path, core: Path, tool: Tool) -> dict[str, Any]:
    """Its JSON; the exit code says whether something is wrong, or the listing has gaps."""
    printed = tool("live", "hooks", vmlinux, core, "--json", status=None)
    data: dict[str, Any] = printed.json
    wrong = any(one["severity"] in FAILING for one in data["findings"])
    assert printed.status == (1 if wrong else UNDECIDED if data["not_known"] else 0)
    return data


def test_each_listener_is_listed(vmlinux: Path, tool: Tool) -> None:
    data = hooks(vmlinux, saved(vmlinux), tool)
    said = [
        (one["kind"], one["name"], one["functions"], [call["symbol"] for call in one["calls"]], one["flags"])
        for one in data["listeners"]
    ]
    assert said == [
        ("ftrace_ops", "", ["vfs_read+0x4"], ["on_call"], ["IPMODIFY"]),
        ("kprobe", "", ["vfs_write+0x4"], ["on_probe"], []),
        ("kprobe", "grp:ev", ["vfs_write+0x8"], ["kprobe_dispatcher"], []),
        ("kretprobe", "", ["vfs_read"], ["on_return"], []),
        ("livepatch", "good", ["replaced"], ["on_call"], []),
        ("tracepoint", "made", [], ["on_call"], []),
        ("tracer", "function", [], [], []),
    ]
    assert {call["owner"] for one in data["listeners"] for call in one["calls"]} == {"kernel"}
    assert data["listeners"][-1]["details"] == {"instance": "mine"}
    assert data["modules"] == [{"name": "good", "state": "live"}]
    assert data["not_known"] == []


def test_what_a_pid_filter_calls_is_listed(vmlinux: Path, tool: Tool) -> None:
    """``set_ftrace_pid`` puts ``ftrace_pid_func`` before the callback of each ftrace_ops that obeys it."""
    filtered: Values = {"hook": "ftrace_pid_func", "hook+16": 1 << 13 | 1}
    (ops,) = (one for one in hooks(vmlinux, saved(vmlinux, filtered), tool)["listeners"] if "ops" in one["kind"])
    assert [(call["role"], call["symbol"]) for call in ops["calls"]] == [
        ("pid filter", "ftrace_pid_func"), ("callback", "on_call"),
    ]  # fmt: skip


ELSEWHERE = {"loaded+88": 0xFFFF_8000_2000_0000, "hook": 0xFFFF_8000_2000_0020}  # the module's text, a callback there


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "second [good]"),
        ({"hook": 0xFFFF_8000_2000_0034}, "second+0x14 [good]"),
        ({"symbols+24": 1 << 48 | 2 << 32 | 0x7000_0000}, "0xffff800020000020 [good]"),  # memory lacks its name
        ({"symbols+48": 1 << 48 | 0x7000_0000, "hook": 0xFFFF_8000_2000_0034}, "second+0x14 [good]"),
    ],
)
def test_a_function_is_not_named_by_the_one_before_it(
    vmlinux: Path, changes: dict[str, int], name: str, tool: Tool
) -> None:
    data = hooks(vmlinux, saved(vmlinux, ELSEWHERE | changes), tool)
    (call,) = data["listeners"][0]["calls"]
    assert (call["symbol"], call["owner"]) == (name, "module good")


@pytest.mark.parametrize("flag", [1, 2])  # GONE, DISABLED
def test_a_kprobe_that_is_off_is_listed_and_not_called(vmlinux: Path, flag: int, tool: Tool) -> None:
    data = hooks(vmlinux, saved(vmlinux, {"probe+72": flag}), tool)
    probes = [one for one in data["listeners"] if one["kind"] == "kprobe"]
    assert [len(one["flags"]) for one in probes] == [1, 0]
    # The place of one that is GONE went with its module, and may be another's.
    assert [len(one["functions"]) for one in probes] == [flag - 1, 1]
    (write,) = (one for one in data["functions"] if one["function"] == "vfs_write")
    assert [called["offset"] for called in write["called"]] == [8]


@pytest.mark.parametrize("off", [{"probe+72": 1}, {"probe+72": 2}, {"kprobes_all_disarmed": 1}])
def test_a_kprobe_whose_breakpoint_is_in_the_text_is_called(vmlinux: Path, off: dict[str, int], tool: Tool) -> None:
    """The kernel asks no flag of a kprobe that is alone at its place."""
    data = hooks(vmlinux, saved(vmlinux, off | {"vfs_write+4": 0xD503201F_D4200080}), tool)
    (write,) = (one for one in data["functions"] if one["function"] == "vfs_write")
    assert 4 in [called["offset"] for called in write["called"]]


@pytest.mark.parametrize(
    ("changes", "kinds", "called"),
    [
        ({"ftrace_enabled": 0, "record_of_read+8": 1}, {"ftrace_ops"}, {"kprobe", "kretprobe", "livepatch"}),
        ({"kprobes_all_disarmed": 1}, {"kprobe", "kretprobe"}, {"ftrace_ops", "livepatch"}),
        # Turning ftrace off disables every record; a value that was written into memory does not.
        ({"ftrace_enabled": 0}, set(), {"ftrace_ops", "kprobe", "kretprobe", "livepatch"}),
        # After an error ftrace sets both, and the calls stay in the text.
        ({"ftrace_enabled": 0, "ftrace_disabled": 1}, set(), {"ftrace_ops", "kprobe", "kretprobe", "livepatch"}),
    ],
)
def test_what_a_switch_stops_is_listed_and_not_called(
    vmlinux: Path, changes: dict[str, int], kinds: set[str], called: set[str], tool: Tool
) -> None:
    data = hooks(vmlinux, saved(vmlinux, changes), tool)
    assert {one["kind"] for one in data["listeners"] if "STOPPED" in one["flags"]} == kinds
    assert {one["kind"] for function in data["functions"] for one in function["called"]} == called


def test_the_tables(vmlinux: Path, tool: Tool) -> None:
    core = saved(vmlinux, {"filter+24": 0})  # an empty hash means all
    lines = [line.split() for line in tool("live", "hooks", vmlinux, core).out.splitlines()]
    assert ["ftrace_ops", "every", "traced", "function", "callback", "on_call", "IPMODIFY"] in lines
    assert ["every", "traced", "function", "ftrace_ops", "on_call"] in lines
    assert ["on", "return:", "kretprobe", "on_return"] in [line[1:] for line in lines if line[:1] == ["vfs_read"]]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"filter+24": 2}, "counts 2 entries, and has 1"),
        ({"filter": 60}, "an ftrace_hash of 2^60 buckets"),
        ({"hook+8": 0}, "a list leads to 0 after 1 entries"),
        ({"ftrace_ops_list": 0xFFFF_8000_0000_0000}, "memory has no 8 bytes at 0xffff8000000000"),
    ],
)
def test_a_damaged_list_is_not_known(vmlinux: Path, changes: dict[str, int], said: str, tool: Tool) -> None:
    """And the other lists are read all the same."""
    core = saved(vmlinux, changes)
    data = hooks(vmlinux, core, tool)
    (reason, *_) = data["not_known"]
    assert reason.startswith("ftrace_ops: ")
    assert said in reason
    assert [one["kind"] for one in data["listeners"]][-6:] == [
        "kprobe",
        "kprobe",
        "kretprobe",
        "livepatch",
        "tracepoint",
        "tracer",
    ]
    printed = tool("live", "hooks", vmlinux, core, "-q", status=UNDECIDED)
    assert printed.out.splitlines() == [f"not known: {fact}" for fact in data["not_known"]]


@pytest.mark.parametrize("place", ["nop_tracer", "second_trace+24"])
def test_a_name_that_memory_lacks_is_not_empty(vmlinux: Path, place: str, tool: Tool) -> None:
    """A tracer without a name would be in use, and an instance without one would be tracefs itself."""
    data = hooks(vmlinux, saved(vmlinux, {place: 0xFFFF_8000_7000_0000}), tool)
    assert data["not_known"] == ["tracers: memory has no name at 0xffff800070000000"]


@pytest.mark.parametrize(
    ("lock", "what"),
    [
        ("ftrace_lock", "ftrace_ops"),
        ("kprobe_mutex", "kprobes"),
        ("tracepoints_mutex", "tracepoints"),
        ("klp_mutex", "livepatches"),
    ],
)
def test_a_list_that_was_being_changed_is_not_whole(lock: str, what: str, vmlinux: Path, tool: Tool) -> None:
    """A capture of Debian's 7.2 while tracers were switched had a tracer, no ftrace_ops of it, and no word on that."""
    data = hooks(vmlinux, saved(vmlinux, {lock: 0xFFFF_0000_0123_4561}), tool)  # a task, and a flag
    assert data["not_known"] == [f"{what}: being changed ({lock} is held)"]
    assert hooks(vmlinux, saved(vmlinux, {lock: 1}), tool)["not_known"] == []


@pytest.mark.parametrize("installed", [True, False], ids=["drgn", "no drgn"])
def test_without_types_nothing_is_known(
    installed: bool, vmlinux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    """What to install would not help: an arm64 machine without drgn says the same."""
    if not installed:
        monkeypatch.setattr("prologue.live.hooks.inventory.find_spec", lambda name: None)
    bare = tmp_path / "vmlinux"
    subprocess.run(["aarch64-linux-gnu-objcopy", "-g", vmlinux, bare], check=True)
    data = hooks(bare, saved(vmlinux), tool)
    assert data["listeners"] == []
    assert data["not_known"] == ["structs: the vmlinux has neither BTF nor DWARF that describes them"]


def test_without_drgn_the_reason_is_another(vmlinux: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.setitem(sys.modules, "drgn", None)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr("prologue.live.hooks.inventory.find_spec", lambda name: None)
    (reason,) = hooks(vmlinux, saved(vmlinux), tool)["not_known"]
    assert "DWARF is read by drgn: pip install 'drgn>=" in reason


def test_a_drgn_that_cannot_be_loaded_leaves_the_table(
    vmlinux: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    """It was built with a library that is gone: the audit says what it could not look at, and does its part."""
    (tmp_path / "drgn.py").write_text('raise ImportError("libdw.so.1: cannot open shared object file")\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "drgn", raising=False)
    said = tool("live", "audit", vmlinux, saved(vmlinux)).out
    assert "struct offsets: of the table for 6.1 to 6.12" in said
    assert "not looked at: what is attached to the kernel: structs" in said


def test_a_page_has_both_tables(vmlinux: Path, tmp_path: Path, tool: Tool) -> None:
    out = tmp_path / "hooks.html"
    assert f"{out}: " in tool("live", "hooks", vmlinux, saved(vmlinux), "--format", "html", "-o", out).err
    page = out.read_text()
    assert "<td>kprobe</td><td></td><td>vfs_write+0x4</td><td>handler on_probe</td>" in page
    assert "<td>vfs_read</td><td>ftrace_ops on_call</td>" in page


def test_places_that_left_with_their_module_are_none(vmlinux: Path, tool: Tool) -> None:
    """``clear_mod_from_hash`` (kernel/trace/ftrace.c) sets them to 0, and the hash counts them on: it is not empty."""
    (ops,) = (
        one
        for one in hooks(vmlinux, saved(vmlinux, {"wanted+16": 0}), tool)["listeners"]
        if one["kind"] == "ftrace_ops"
    )
    assert ops["functions"] == []


@pytest.mark.parametrize("held", [[True, False], [False, True], [True, True]])
def test_a_change_before_or_after_reading_is_seen_once(
    vmlinux: Path, held: list[bool], tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A running kernel goes on: the mutex that was held first may be free when all lists are read."""
    left = held.copy()
    monkeypatch.setattr(Variables, "is_held", lambda _, name: name == "ftrace_lock" and bool(left) and left.pop(0))
    assert hooks(vmlinux, saved(vmlinux), tool)["not_known"] == ["ftrace_ops: being changed (ftrace_lock is held)"]
    assert left == []
