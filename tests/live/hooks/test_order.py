"""Listeners of one function of a small kernel, in the order in which the kernel calls them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.live.hooks.hooked import make
from tests.live.hooks.test_programs import Values, hooks


@pytest.fixture(scope="module", params=["7.2", "before 6.10"])
def vmlinux(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = () if request.param == "7.2" else ("-DFORMER",)
    return make(tmp_path_factory.mktemp("order"), *options)


def called(data: dict[str, Any], function: str) -> list[tuple[str, int | None]]:
    """Listeners of a function by their names, or kinds, each with its offset."""
    names = [one["name"] or one["kind"] for one in data["listeners"]]
    (group,) = (one for one in data["functions"] if one["function"] == function)
    return [(names[each["listener"]], each["offset"]) for each in group["called"]]


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
