"""Listeners of one function of a small kernel, in the order in which the kernel calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.live.hooks.hooked import make
from tests.live.hooks.test_programs import Values, hooks, programs_of
from tests.support.elf_edit import ElfEdit


@pytest.fixture(scope="module", params=["7.2", "before 6.10"])
def vmlinux(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = () if request.param == "7.2" else ("-DFORMER",)
    return make(tmp_path_factory.mktemp("order"), *options)


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


def test_programs_of_many_functions_at_once(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = hooks(vmlinux, many(vmlinux), capsys)
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


def test_programs_of_many_functions_come_after_their_fprobes(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = hooks(vmlinux, many(vmlinux), capsys)
    write = [each for each in called(data, "vfs_write") if each[0] != "ftrace_ops"]
    assert write == [
        ("fprobe", 4), ("early", 4), ("fprobe", 4), ("late", 4), ("kprobe", 4), ("grp:ev", 8), ("late", None),
    ]  # fmt: skip
    assert called(data, "vfs_read")[-4:] == [("fprobe", 4), ("late", 4), ("late", None), ("kretprobe", None)]


def test_a_program_of_many_functions_that_is_not_listed(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = {
        one["name"]: one["flags"] for one in programs_of(hooks(vmlinux, many(vmlinux) | {"programs+8": 0}, capsys))
    }
    assert flags == {"early": ["NOT LISTED"], "late": [], "end": []}


def test_programs_of_many_functions_stop_with_ftrace(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = hooks(vmlinux, many(vmlinux) | {"ftrace_enabled": 0}, capsys)
    assert [one["flags"] for one in programs_of(data) if one["name"] != "end"] == [["STOPPED"]] * 3
    assert called(data, "vfs_write") == [("kprobe", 4), ("grp:ev", 8)]


def test_a_kprobe_before_the_call_of_ftrace_comes_first(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With BTI, that call is the third instruction; the second may have a kprobe."""
    data = hooks(vmlinux, {"wanted+16": "vfs_write+8", "event_probe+56": "vfs_write+12"}, capsys)
    assert called(data, "vfs_write") == [("kprobe", 4), ("ftrace_ops", 8), ("grp:ev", 12)]


RETURNS: Values = {
    "kprobe_table+8": "second_probe+24",
    "returns_event+8": "attached",
    "second_event+8": "also_attached",
    "prog_idr+16": "programs+2",
}


def test_programs_come_after_their_kretprobes(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was reached last is called first, each with its own program."""
    data = hooks(vmlinux, RETURNS, capsys)
    assert called(data, "replaced") == [
        ("good", 0), ("grp:end", None), ("attached", None), ("grp:second", None), ("early", None),
    ]  # fmt: skip


def test_a_program_is_not_called_where_its_kretprobe_is_off(vmlinux: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = hooks(vmlinux, RETURNS | {"second_probe+88": 2}, capsys)  # DISABLED
    assert called(data, "replaced") == [("good", 0), ("grp:end", None), ("attached", None)]
