"""Recordings of the mini kernel: nothing is left out, nothing invented; and what cannot be recorded is one line."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from prologue.cli.main import main
from prologue.kernel.kernel import Kernel
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.needs import needs_common_tools
from tests.support.tool import Tool

pytestmark = pytest.mark.qemu

RANGE = np.dtype("u8,u8,u4,u2,u1,u1,i4,u4").newbyteorder("<")
RANGE.names = ("time", "start", "count", "cpu", "level", "flags", "vmid", "task")
EXECUTED = np.dtype("u8,u4,u2,u1,u1").newbyteorder("<")
EXECUTED.names = ("vaddr", "word", "cpu", "level", "flags")


@pytest.fixture(autouse=True)
def _qemu() -> None:
    needs_common_tools("qemu-system-aarch64")


def command(vmlinux: Path, out: Path, *options: str) -> list[str]:
    return ["trace", "record", str(vmlinux), "-o", str(out), "--boot", "--ram", "64", *options]


def ranges(path: Path) -> npt.NDArray[Any]:
    return np.frombuffer(path.read_bytes()[64:], RANGE)


def addresses(recorded: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Of each instruction."""
    count = recorded["count"].astype(np.int64)
    first = np.repeat(np.cumsum(count) - count, count)
    starts: npt.NDArray[np.uint64] = np.repeat(recorded["start"], count)
    return starts + (np.arange(len(first)) - first).astype(np.uint64) * np.uint64(4)


def slide(path: Path) -> int:
    flags, value = struct.unpack_from("<I28xQ", path.read_bytes(), 24)
    assert flags == 3
    return int(value)


@pytest.mark.thorough
def test_it_is_what_was_executed(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    """From reset to power-off: how far each CPU comes in a part of it depends on how busy this machine is."""
    vmlinux, out, truth = mini(Spec()), tmp_path / "out", tmp_path / "truth"
    said = tool(*command(vmlinux, out, "--save-truth", str(truth), "--json")).json
    recorded, executed = ranges(out), np.frombuffer(truth.read_bytes()[16:], EXECUTED)
    assert said["ended_by"] == "machine"
    assert len(said["cpus"]) == 2
    assert said["ranges"] == np.count_nonzero(recorded["count"])
    assert said["instructions"] == len(executed) >= 200_000
    assert int(said["slide"], 16) == slide(out)
    for cpu in (0, 1):
        mine, words = recorded[recorded["cpu"] == cpu], executed[executed["cpu"] == cpu]
        assert np.array_equal(addresses(mine), words["vaddr"])
        assert mine["time"].tolist() == sorted(mine["time"].tolist())
        assert set(words["level"].tolist()) == {1}
    assert (recorded["flags"][1:] & 1).sum() == 1  # the second CPU's first one
    # All words but those of second slots, which the kernel swings, and of first ones, are as linked.
    kernel = Kernel(vmlinux)
    assert kernel.sites is not None
    vaddrs, index = np.unique(executed["vaddr"] - np.uint64(slide(out)), return_index=True)
    linked = np.isin(vaddrs, np.concatenate([kernel.sites.first, kernel.sites.second]), invert=True)
    text = np.zeros(len(vaddrs), np.bool_)
    for section in kernel.image.text_sections:
        text |= (vaddrs >= np.uint64(section.addr)) & (vaddrs < np.uint64(section.addr + section.size))
    words_there = kernel.image.words(vaddrs[linked & text])
    assert len(words_there) > 500
    assert np.array_equal(words_there, executed["word"][index][linked & text])


@pytest.mark.thorough
def test_one_function(mini: Mini, tmp_path: Path) -> None:
    """From its entry until it returns, what it calls included, and nothing else."""
    vmlinux, out = mini(Spec()), tmp_path / "out"
    assert main(command(vmlinux, out, "--function", "work_nested", "-q")) == 0
    kernel, recorded = Kernel(vmlinux), ranges(out)
    names = ("work_nested", "work_middle", "work_leaf", "work_local", "ftrace_caller", "ftrace_trace", "in_text")
    linked = recorded["start"] - np.uint64(slide(out))
    seen = {kernel.symbols.locate(int(vaddr)).symbol for vaddr in np.unique(linked)}
    assert {"work_nested", "work_middle", "work_leaf", "ftrace_trace"} <= seen <= set(names)
    entry = kernel.symbols.find("work_nested")
    assert entry is not None
    calls = recorded["flags"] & 1 != 0
    assert calls.sum() > 50
    assert set(linked[calls].tolist()) == {entry.vaddr}
    assert set(recorded["cpu"].tolist()) == {1}


def test_a_window(mini: Mini, tmp_path: Path) -> None:
    vmlinux, out = mini(Spec()), tmp_path / "out"
    assert main(command(vmlinux, out, "--begin", "work_fibonacci", "--until", "work_even", "-q")) == 0
    recorded, kernel = ranges(out), Kernel(vmlinux)
    mine = (recorded["start"] - np.uint64(slide(out)))[recorded["cpu"] == 1]  # that one works
    begin, end = kernel.symbols.find("work_fibonacci"), kernel.symbols.find("work_even")
    assert begin is not None
    assert end is not None
    assert mine[0] == begin.vaddr
    assert (mine == begin.vaddr).sum() == 41  # calls for the seventh number
    assert end.vaddr not in mine


def test_a_count(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, out = mini(Spec()), tmp_path / "out"
    said = tool(*command(vmlinux, out, "--begin", "work_fibonacci", "--count", "20000", "--json")).json
    assert said["ended_by"] == "count"
    assert said["instructions"] == ranges(out)["count"].sum() >= 20_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--begin", "work_fibonaci"], "no function work_fibonaci: did you mean work_fibonacci, "),
        (["--function", "no_such"], "no function no_such: name one of its symbol table (nm vmlinux)"),
        (["--save-truth", "OUT"], "is named for two outputs"),
        (["--insmod", "VMLINUX"], "--boot has no root file system"),
        (["--process"], "--process: --boot runs no command"),
        (["--save-truth", "/nowhere/truth"], "no such directory"),
        (["--save-truth", "/proc"], "is a directory"),
        (["--begin", "work_chosen", "--save-memory", "DUMP"], "the machine ended before its memory was dumped"),
        (["--begin", "die_exception"], "the window never began: the machine ended"),
    ],
)
def test_what_cannot_be(mini: Mini, tmp_path: Path, tool: Tool, options: list[str], said: str) -> None:
    out = tmp_path / "out"
    vmlinux = mini(Spec())
    named = {"OUT": str(out), "DUMP": str(tmp_path / "dump"), "VMLINUX": str(vmlinux)}
    printed = tool(*command(vmlinux, out, *(named.get(word, word) for word in options)), status=None)
    error = printed.err
    assert said in error
    assert printed.status == (4 if "window" in said or "dumped" in said else 2)


def test_what_is_loaded_run_and_replaced(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, out = str(mini(Spec())), tmp_path / "out"
    for wrong, said in ((vmlinux, "is not a module"), ("/proc", "not a regular file"), ("/nowhere", "No such file")):
        assert said in tool("trace", "record", vmlinux, "-o", out, "--insmod", wrong, status=2).err
    assert "--command: no command" in tool("trace", "record", vmlinux, "-o", out, "--command", " ", status=2).err
    assert not out.exists()
    before = Path(vmlinux).read_bytes()
    assert "is also an input" in tool(*command(Path(vmlinux), Path(vmlinux)), status=2).err
    assert Path(vmlinux).read_bytes() == before
