"""A recording becomes perf.data: what perf and our reader find in it is what was recorded."""

from __future__ import annotations

from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from prologue.cli.main import main
from prologue.live.memory.state import KernelTask
from prologue.live.system.programs import decoder_text, linked_program
from prologue.trace.coresight.frames import pack_frames
from prologue.trace.etm.perf_data import KernelMap, TracedKernel, write_perf_trace
from prologue.trace.etm.processes import TracedProcesses
from prologue.trace.ranges import GAP
from prologue.trace.readers.recording import RecordingHeader
from prologue.trace.readers.sources import open_trace
from tests.support import cs_etm
from tests.support.cores import core
from tests.support.cs_recorded import branches_as_perf_prints, branches_as_recorded
from tests.support.cs_recording import ROUND, TEXT, walk
from tests.support.perfs import SUITES, needs_perf
from tests.support.tool import Printed, Tool
from tests.trace.made import KERNEL, MadeKernel, recording

TASKS = (KernelTask(77, 70, "cat"), KernelTask(78, 78, "dd"))


class Row(NamedTuple):
    start: int
    time: int
    level: int
    pid: int
    tid: int
    comm: str


def records(rounds: int, *, level: int = 1) -> np.ndarray[Any, np.dtype[Any]]:
    """Two CPUs, two tasks in turns; each round has another time, the last one of 64 bits."""
    one = walk(rounds, level=level)
    number = np.arange(len(one), dtype=np.uint64) // np.uint64(len(ROUND))
    one["time"] = number * np.uint64(1_000_003) + np.uint64(500)
    one["time"][-len(ROUND) :] = (1 << 63) + 5
    one["task"] = np.where(number % np.uint64(2), 78, 77)
    both = np.concatenate([one, one])
    both["cpu"][len(one) :] = 1
    both["flags"][len(one)] = GAP
    return both


def write(path: Path, rows: np.ndarray[Any, np.dtype[Any]], *, clocked: bool = True, build_id: str = "") -> None:
    place = KernelMap("_text", KERNEL.base, 4 * len(KERNEL.words))
    kernel = TracedKernel(text=TEXT, place=place, processes=TracedProcesses(tasks=TASKS), build_id=build_id)
    write_perf_trace(path, RecordingHeader(slide=0, clocked=clocked), rows, kernel, levels=(1, 2))


def decoded(path: Path, vmlinux: Path) -> dict[int, list[Row]]:
    with open_trace(str(path)) as trace:
        assert trace.decoded is not None
        trace.decoded.follow(decoder_text(linked_program(vmlinux, 0), None))
        batches = list(trace.batches)
    found: dict[int, list[Row]] = {0: [], 1: []}
    for batch in batches:
        for cpu, start, time, level, task in batch.ranges[["cpu", "start", "time", "level", "task"]].tolist():
            who = batch.tasks[task]
            found[cpu].append(Row(start, time, level, who.pid, who.tid, who.comm))
    return found


@pytest.mark.usefixtures("opencsd")
@pytest.mark.parametrize("level", [1, 2], ids=["CONTEXTIDR_EL1", "VHE: CONTEXTIDR_EL2"])
def test_times_and_tasks_are_those_of_the_recording(level: int, tmp_path: Path) -> None:
    rows = records(6, level=level)
    write(tmp_path / "perf.data", rows)
    names = {task.tid: (task.pid, task.tid, task.comm) for task in TASKS}
    for cpu, found in decoded(tmp_path / "perf.data", KERNEL.write(tmp_path / "vmlinux")).items():
        mine = rows[rows["cpu"] == cpu][["start", "time", "level", "task"]].tolist()
        assert found == [Row(start, time, own, *names[task]) for start, time, own, task in mine]


@pytest.mark.usefixtures("opencsd")
def test_guests_are_left_out(tmp_path: Path) -> None:
    """Nothing in perf.data tells them from the host, and they may run at the host's addresses."""
    rows = records(3)
    rows["vmid"][rows["cpu"] == 1] = 5
    write(tmp_path / "perf.data", rows)
    found = decoded(tmp_path / "perf.data", KERNEL.write(tmp_path / "vmlinux"))
    assert (len(found[0]), found[1]) == (3 * len(ROUND), [])


@pytest.mark.usefixtures("opencsd")
def test_without_a_clock_there_are_no_times(tmp_path: Path) -> None:
    write(tmp_path / "perf.data", records(3), clocked=False)
    found = decoded(tmp_path / "perf.data", KERNEL.write(tmp_path / "vmlinux"))
    assert {row.time for rows in found.values() for row in rows} == {0}


@pytest.mark.thorough
@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("level", [1, 2], ids=["CONTEXTIDR_EL1", "VHE: CONTEXTIDR_EL2"])
def test_perf_decodes_it(level: int, suite: str, tmp_path: Path) -> None:
    rows = records(300, level=level)
    write(tmp_path / "perf.data", rows)
    vmlinux = KERNEL.write(tmp_path / "vmlinux")
    found = list(branches_as_perf_prints(tmp_path / "perf.data", "-k", str(vmlinux), perf=str(needs_perf(suite))))
    assert found == list(branches_as_recorded(rows, (level,)))


@pytest.mark.thorough
@pytest.mark.parametrize("suite", SUITES)
def test_perf_takes_the_kernel_that_is_made_of_it(suite: str, tmp_path: Path) -> None:
    """With ``-k`` perf takes only a file with the build-id that was recorded."""
    rows, path, out = records(40), tmp_path / "perf.data", tmp_path / "kernel.elf"
    kcore_of(path)
    write(path / "data", rows, build_id="ab" * 20)
    assert main(["live", "overlay", "--without-vmlinux", str(path), "-o", str(out), "-q"]) == 0
    found = list(branches_as_perf_prints(path / "data", "-k", str(out), perf=str(needs_perf(suite))))
    assert found == list(branches_as_recorded(rows))


def kcore_of(path: Path) -> None:
    """What perf record --kcore leaves beside the data."""
    directory = path / "kcore_dir"
    directory.mkdir(parents=True)
    text = np.array(KERNEL.words, "<u4").tobytes()
    (directory / "kcore").write_bytes(core([(KERNEL.base, 0, text)]))
    lines = [f"{vaddr:x} T {name}" for name, vaddr in KERNEL.places.items()]
    lines += [f"{KERNEL.base:x} T _stext", f"{KERNEL.base + len(text):x} D _etext"]
    (directory / "kallsyms").write_text("\n".join(lines) + "\n")
    (directory / "modules").write_text("")


@pytest.mark.parametrize("size", range(1, 60))
def test_frames(size: int) -> None:
    """The same as those that a loop over bytes makes."""
    data = bytes((37 * k + 11) & 0xFF for k in range(size))
    assert pack_frames(data, 0x12) == cs_etm.framed(data, 0x12) + b"\1" + bytes(15)


def run(
    tool: Tool, tmp_path: Path, *options: str, kernel: MadeKernel = KERNEL, status: int | None = 0, **values: int
) -> Printed:
    rows = [{"cpu": 0, "level": 1, "start": start, "count": count, "task": 77, **values} for start, count in ROUND]
    (tmp_path / "recording").write_bytes(recording(rows, RecordingHeader(slide=0)))
    command = ["trace", "etm", str(tmp_path / "recording"), "--vmlinux", str(kernel.write(tmp_path / "vmlinux"))]
    return tool(*command, "-o", tmp_path / "out", *options, status=status)


@pytest.mark.usefixtures("opencsd")
def test_a_file_that_is_decoded_with_the_vmlinux(tmp_path: Path, tool: Tool) -> None:
    kernel = copy(KERNEL)
    kernel.places = {**KERNEL.places, "_text": KERNEL.base, "_end": KERNEL.base + 4 * len(KERNEL.words)}
    kernel.sizes = {**KERNEL.sizes, "_text": 0, "_end": 0}
    ran = run(tool, tmp_path, "--perf", kernel=kernel)
    assert ran.out.startswith(f"{tmp_path / 'out'}: CPU 0: 15 instructions in ")
    printed = tool("trace", "check", tmp_path / "out", "--vmlinux", tmp_path / "vmlinux")
    assert printed.out == "5 steps, none impossible\n"


def test_numbers_that_cannot_be(tmp_path: Path, tool: Tool) -> None:
    assert "has a CPU 96: trace IDs are there for 0 to 95" in run(tool, tmp_path, "--perf", cpu=0x60, status=2).err
    assert "damaged: 6 of its records make no sense" in run(tool, tmp_path, "--perf", task=1 << 31, status=2).err


def test_options_that_do_not_go_together(tmp_path: Path, tool: Tool) -> None:
    for options, said in (
        (["--perf", "--decoder-vmlinux", "x"], "--decoder-vmlinux is of snapshots"),
        (["--memory", "x"], "--memory is for --perf"),
        (["--perf", "--modules", "x"], "--modules needs --memory"),
        (["--perf", "--memory", "x"], "No such file"),
        (["--perf"], "has no symbols _text and _end"),
    ):
        error = run(tool, tmp_path, *options, status=2).err
        assert said in error
        assert error.count("\n") == 1
        assert not (tmp_path / "out").exists()
