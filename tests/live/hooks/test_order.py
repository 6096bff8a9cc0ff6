"""Listeners of one function of a small kernel, in the order in which the kernel calls them."""

from __future__ import annotations

from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest

from tests.live.hooks.hooked import Values, saved
from tests.live.hooks.test_programs import hooks, programs_of, trampoline
from tests.support.elf_edit import ElfEdit
from tests.support.tool import Tool


@pytest.fixture(params=["7.2", "before 6.10"])
def vmlinux(request: pytest.FixtureRequest, recent: Path, former: Path) -> Path:
    return recent if request.param == "7.2" else former


def called(data: dict[str, Any], function: str) -> list[tuple[str, int | None]]:
    """Listeners of a function by their names, or kinds, each with its offset."""
    names = [one["name"] or one["kind"] for one in data["listeners"]]
    (group,) = (one for one in data["functions"] if one["function"] == function)
    return [(names[each["listener"]], each["offset"]) for each in group["called"]]


def many(vmlinux: Path) -> Values:
    """Programs on many functions at once: the one that is listed last was added last, and is called first."""
    programs: Values = {"prog_idr+16": "programs+2"}
    if "trampoline_table" in ElfEdit(vmlinux).symbols:
        return programs | {"hook+8": "early_many+16"}
    return programs | {"fprobe_table": "late_functions+8", "fprobe_table+16": "early_functions+8"}


def test_programs_of_many_functions_at_once(vmlinux: Path, tool: Tool) -> None:
    data = hooks(vmlinux, many(vmlinux), tool)
    said = [
        (one["name"], one["functions"], one["details"]["attached"]) for one in programs_of(data) if one["name"] != "end"
    ]
    both = ["vfs_read+0x4", "vfs_write+0x4"]
    assert said == [
        ("late", both, "kprobe.multi"), ("late", both, "kretprobe.multi"), ("early", ["vfs_write+0x4"], "kprobe.multi"),
    ]  # fmt: skip
    assert {tuple(one["functions"]) for one in data["listeners"] if one["kind"] == "fprobe"} == {
        tuple(both), ("vfs_write+0x4",),
    }  # fmt: skip
    assert data["not_known"] == []


def test_programs_of_many_functions_come_after_their_fprobes(vmlinux: Path, tool: Tool) -> None:
    data = hooks(vmlinux, many(vmlinux), tool)
    write = [each for each in called(data, "vfs_write") if each[0] != "ftrace_ops"]
    assert write == [
        ("fprobe", 4), ("early", 4), ("fprobe", 4), ("late", 4), ("kprobe", 4), ("grp:ev", 8), ("late", None),
    ]  # fmt: skip
    assert called(data, "vfs_read")[-4:] == [("fprobe", 4), ("late", 4), ("late", None), ("kretprobe", None)]


def test_programs_of_many_functions_stop_with_ftrace(vmlinux: Path, tool: Tool) -> None:
    data = hooks(vmlinux, many(vmlinux) | {"ftrace_enabled": 0, "record_of_read+8": 1}, tool)
    assert [one["flags"] for one in programs_of(data) if one["name"] != "end"] == [["STOPPED"]] * 3
    assert called(data, "vfs_write") == [("kprobe", 4), ("grp:ev", 8)]


def test_a_kprobe_before_the_call_of_ftrace_comes_first(vmlinux: Path, tool: Tool) -> None:
    """With BTI, that call is the third instruction; the second may have a kprobe."""
    data = hooks(vmlinux, {"wanted+16": "vfs_write+8", "event_probe+56": "vfs_write+12"}, tool)
    assert called(data, "vfs_write") == [("kprobe", 4), ("ftrace_ops", 8), ("grp:ev", 12)]


def listed(*ops: str) -> Values:
    """These ftrace_ops, all of vfs_write, on the list."""
    links = {f"{one}+8": other for one, other in pairwise((*ops, "ftrace_list_end"))} | {"ftrace_ops_list": ops[0]}
    # That of an fprobe is a part of the link of its program.
    places = {"early_many+8": "early_many+24", "late_many+8": "late_many+24"}
    values = {"early_many": "early_many+16", "late_many": "late_many+16"}
    return {"wanted+16": "vfs_write+4", **{places.get(k, k): values.get(value, value) for k, value in links.items()}}


def at_entry(data: dict[str, Any]) -> list[str]:
    """What is called by way of ftrace when vfs_write is: the first function of each listener, or the program."""
    names = [one["name"] or one["calls"][0]["symbol"] for one in data["listeners"]]
    (group,) = (one for one in data["functions"] if one["function"] == "vfs_write")
    return [names[one["listener"]] for one in group["called"] if one["offset"] == 4 and one["kind"] != "kprobe"]


MANY = "kprobe_multi_link_handler"


@pytest.mark.parametrize("order", list(permutations(("hook", "graph_ops", "fprobe_ftrace_ops"))))
@pytest.mark.parametrize("first", ["user", "fprobe_graph_ops"])
def test_the_list_of_ftrace_ops_is_the_order(recent: Path, order: tuple[str, ...], first: str, tool: Tool) -> None:
    """Each of them comes with what it calls: users of the function graph, and fprobes, of which these call some."""
    users = {"user": ["on_probe"], "fprobe_graph_ops": ["fprobe_fgraph_entry", MANY, "late"]}
    second = next(name for name in users if name != first)
    calls = {
        "hook": ["on_call"],
        "graph_ops": ["ftrace_graph_func", *users[first], *users[second]],
        "fprobe_ftrace_ops": ["fprobe_ftrace_entry", MANY, "early"],
    }
    array: Values = {"fgraph_array": first, "fgraph_array+8": second}
    data = hooks(recent, many(recent) | array | listed(*order), tool)
    assert at_entry(data) == [name for ops in order for name in calls[ops]]


FORMER = {
    "hook": ["on_call"],
    "graph_ops": ["ftrace_graph_func", "on_probe"],
    "early_many": ["fprobe_handler", MANY, "early"],
    "late_many": ["fprobe_handler", MANY, "late"],
}
USED: Values = {"__ftrace_graph_entry": "on_probe", "ftrace_graph_return": "on_return"}


@pytest.mark.parametrize("order", [tuple(FORMER), tuple(reversed(FORMER))])
def test_the_list_of_ftrace_ops_was_the_order(former: Path, order: tuple[str, ...], tool: Tool) -> None:
    data = hooks(former, many(former) | USED | listed(*order), tool)
    assert at_entry(data) == [name for ops in order for name in FORMER[ops]]


def test_a_stub_is_not_called_and_the_graph_comes_last(former: Path, tool: Tool) -> None:
    """In 5.10 ``ftrace_caller`` calls the user of the function graph by itself."""
    data = hooks(former, USED | listed("graph_ops", "hook") | {"graph_ops": "ftrace_stub"}, tool)
    assert [one["flags"] for one in data["listeners"]][:2] == [["STUB"], ["IPMODIFY"]]
    assert at_entry(data) == ["on_call", "on_probe"]


def test_the_flag_of_stubs_does_not_hide_a_callback(recent: Path, tool: Tool) -> None:
    """Only the function that goes through the list heeds FTRACE_OPS_FL_STUB; one that is alone is called."""
    assert at_entry(hooks(recent, listed("hook") | {"hook+16": 1 << 5}, tool)) == ["on_call"]


DIRECT: Values = {"hook+16": 1 << 17, "hook+64": "on_probe"}


def test_a_direct_call_is_named_once(recent: Path, tool: Tool) -> None:
    data = hooks(recent, DIRECT | {"direct_functions": "sends"}, tool)
    assert called(data, "vfs_read")[0] == ("direct call", 4)
    assert "ftrace_ops" not in dict(called(data, "vfs_read"))


@pytest.mark.parametrize("hidden", [DIRECT, {"hook+16": 1 << 17}, {"hook": "ftrace_stub", "hook+64": "on_probe"}])
def test_a_flag_hides_no_call(hidden: Values, recent: Path, tool: Tool) -> None:
    """``ftrace_caller`` follows ``direct_call`` whatever the flags say, and without it calls ``func``."""
    data = hooks(recent, hidden, tool)
    assert called(data, "vfs_read")[0] == ("ftrace_ops", 4)


def test_what_listens_everywhere_comes_in_order(recent: Path, tool: Tool) -> None:
    values: Values = {"filter+24": 0, "fgraph_array": "user"}
    assert everywhere(recent, values | listed("graph_ops", "hook"), tool) == [
        "every traced function  ftrace_ops ftrace_graph_func",
        "function graph on_probe, on_return",
        "ftrace_ops on_call",
    ]


def everywhere(vmlinux: Path, changes: Values, tool: Tool) -> list[str]:
    """Lines of the text about every traced function, as it has them."""
    text = tool("live", "hooks", vmlinux, saved(vmlinux, changes), status=None).out.partition("in this order\n")[2]
    return [line.strip() for line in text.partition("\nvfs_read")[0].splitlines()]


def test_a_livepatch_replaces_after_the_direct_call(vmlinux: Path, tool: Tool) -> None:
    """The trampoline calls the replacement, as ``ftrace_caller`` left it where to go on."""
    data = hooks(vmlinux, trampoline(vmlinux) | {"patched_function+24": "vfs_read"}, tool)
    assert [name for name, _ in called(data, "vfs_read")] == [
        "ftrace_ops", "early", "late", "good", "end", "kretprobe",
    ]  # fmt: skip


RETURNS: Values = {
    "kprobe_table+8": "second_probe+24",
    "returns_event+8": "attached",
    "second_event+8": "also_attached",
    "prog_idr+16": "programs+2",
}


def test_programs_come_after_their_kretprobes(vmlinux: Path, tool: Tool) -> None:
    """What was reached last is called first, each with its own program."""
    data = hooks(vmlinux, RETURNS, tool)
    assert called(data, "replaced") == [
        ("good", 0), ("grp:end", None), ("attached", None), ("grp:second", None), ("early", None),
    ]  # fmt: skip


def test_a_program_is_not_called_where_its_kretprobe_is_off(vmlinux: Path, tool: Tool) -> None:
    data = hooks(vmlinux, RETURNS | {"second_probe+88": 2}, tool)  # DISABLED
    assert called(data, "replaced") == [("good", 0), ("grp:end", None), ("attached", None)]


def test_a_fprobe_that_is_off_is_not_called(vmlinux: Path, tool: Tool) -> None:
    """A module may leave it registered (``disable_fprobe()``); its program is not called, either."""
    flags = 32 if "trampoline_key_table" in ElfEdit(vmlinux).symbols else 112
    data = hooks(vmlinux, many(vmlinux) | {f"late_many+{flags}": 1}, tool)
    assert [one["flags"] for one in data["listeners"] if one["kind"] == "fprobe"].count(["DISABLED"]) == 1
    assert ("late", 4) not in called(data, "vfs_read")
    assert ("early", 4) in called(data, "vfs_write")
