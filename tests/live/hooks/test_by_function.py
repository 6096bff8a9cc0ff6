"""Listeners of one function of a small kernel: by offset, and those that nothing calls are left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.live.hooks.hooked import Values, hooks
from tests.live.hooks.test_programs import programs_of, trampoline
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
    """Programs on many functions at once."""
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


def test_programs_of_many_functions_are_called_at_each(vmlinux: Path, tool: Tool) -> None:
    data = hooks(vmlinux, many(vmlinux), tool)
    write = [each for each in called(data, "vfs_write") if each[0] != "ftrace_ops"]
    assert sorted(write[:5]) == [("early", 4), ("fprobe", 4), ("fprobe", 4), ("kprobe", 4), ("late", 4)]
    assert write[5:] == [("grp:ev", 8), ("late", None)]
    read = called(data, "vfs_read")
    assert {("fprobe", 4), ("late", 4)} <= set(read)
    assert sorted(read[-2:]) == [("kretprobe", None), ("late", None)]


def test_programs_of_many_functions_stop_with_ftrace(vmlinux: Path, tool: Tool) -> None:
    data = hooks(vmlinux, many(vmlinux) | {"ftrace_enabled": 0, "record_of_read+8": 1}, tool)
    assert [one["flags"] for one in programs_of(data) if one["name"] != "end"] == [["STOPPED"]] * 3
    assert called(data, "vfs_write") == [("kprobe", 4), ("grp:ev", 8)]


def test_the_lowest_offset_comes_first(vmlinux: Path, tool: Tool) -> None:
    """With BTI, that call is the third instruction; the second may have a kprobe."""
    data = hooks(vmlinux, {"wanted+16": "vfs_write+8", "event_probe+56": "vfs_write+12"}, tool)
    assert called(data, "vfs_write") == [("kprobe", 4), ("ftrace_ops", 8), ("grp:ev", 12)]


USED: Values = {"__ftrace_graph_entry": "on_probe", "ftrace_graph_return": "on_return"}


def test_a_stub_is_not_called_and_the_graph_is(former: Path, tool: Tool) -> None:
    """In 5.10 ``ftrace_caller`` calls the user of the function graph by itself."""
    stub: Values = {"ftrace_ops_list": "graph_ops", "graph_ops": "ftrace_stub", "graph_ops+8": "ftrace_list_end"}
    data = hooks(former, USED | stub, tool)
    assert data["listeners"][0]["flags"] == ["STUB"]
    assert called(data, "vfs_read")[:1] == [("function graph", 4)]


def test_the_flag_of_stubs_does_not_hide_a_callback(recent: Path, tool: Tool) -> None:
    """Only the function that goes through the list heeds FTRACE_OPS_FL_STUB; one that is alone is called."""
    assert ("ftrace_ops", 4) in called(hooks(recent, {"hook+16": 1 << 5}, tool), "vfs_read")


DIRECT: Values = {"hook+16": 1 << 17, "hook+64": "on_probe"}


def test_a_direct_call_is_named_once(recent: Path, tool: Tool) -> None:
    data = hooks(recent, DIRECT | {"direct_functions": "sends"}, tool)
    assert ("direct call", 4) in called(data, "vfs_read")
    assert "ftrace_ops" not in dict(called(data, "vfs_read"))


@pytest.mark.parametrize("hidden", [DIRECT, {"hook+16": 1 << 17}, {"hook": "ftrace_stub", "hook+64": "on_probe"}])
def test_a_flag_hides_no_call(hidden: Values, recent: Path, tool: Tool) -> None:
    """``ftrace_caller`` follows ``direct_call`` whatever the flags say, and without it calls ``func``."""
    data = hooks(recent, hidden, tool)
    assert ("ftrace_ops", 4) in called(data, "vfs_read")


def test_a_program_at_the_end_is_called_at_the_return(vmlinux: Path, tool: Tool) -> None:
    data = hooks(vmlinux, trampoline(vmlinux) | {"patched_function+24": "vfs_read"}, tool)
    assert sorted(called(data, "vfs_read"), key=str) == [
        ("early", 0), ("end", None), ("ftrace_ops", 4), ("good", 0), ("kretprobe", None), ("late", 0),
    ]  # fmt: skip


RETURNS: Values = {
    "kprobe_table+8": "second_probe+24",
    "returns_event+8": "attached",
    "second_event+8": "also_attached",
    "prog_idr+16": "programs+2",
}


def test_a_program_is_not_called_where_its_kretprobe_is_off(vmlinux: Path, tool: Tool) -> None:
    first, *returns = called(hooks(vmlinux, RETURNS, tool), "replaced")
    assert (first, {offset for _, offset in returns}) == (("good", 0), {None})
    assert sorted(name for name, _ in returns) == ["attached", "early", "grp:end", "grp:second"]
    data = hooks(vmlinux, RETURNS | {"second_probe+88": 2}, tool)  # DISABLED
    assert sorted(name for name, _ in called(data, "replaced")[1:]) == ["attached", "grp:end"]


def test_a_function_that_a_fprobe_has_twice_counts_once(recent: Path, tool: Tool) -> None:
    """A link to many functions may name one twice, or by two addresses in it."""
    twice: Values = {"late_functions+96": "late_many+8", "late_functions+120": "vfs_read+4"}
    data = hooks(recent, many(recent) | twice, tool)
    assert {tuple(each["functions"]) for each in data["listeners"] if each["name"] == "late"} == {
        ("vfs_read+0x4", "vfs_write+0x4"),
    }  # fmt: skip


def test_a_fprobe_that_is_off_is_not_called(vmlinux: Path, tool: Tool) -> None:
    """A module may leave it registered (``disable_fprobe()``); its program is not called, either."""
    flags = 32 if "trampoline_key_table" in ElfEdit(vmlinux).symbols else 112
    data = hooks(vmlinux, many(vmlinux) | {f"late_many+{flags}": 1}, tool)
    assert [one["flags"] for one in data["listeners"] if one["kind"] == "fprobe"].count(["DISABLED"]) == 1
    assert ("late", 4) not in called(data, "vfs_read")
    assert ("early", 4) in called(data, "vfs_write")
