"""Processes in the perf.data of a recording: names, files and code, as far as memory at its end shows them."""

from __future__ import annotations

import json
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from prologue.insn.a64 import NOP
from prologue.live.memory.state import KernelTask
from prologue.perf.address_spaces import FileMap
from prologue.trace.etm.perf_data import KernelMap, TracedKernel, write_perf_trace
from prologue.trace.etm.processes import (
    Misfit,
    TracedProcesses,
    find_code,
    find_earlier_programs,
    has_gaps,
    hide,
)
from prologue.trace.etm.stream import ProgramText
from prologue.trace.ranges import EXCEPTION, GAP, RETURN
from prologue.trace.readers.recording import RECORD, RecordingHeader, TraceRecords
from tests.support.needs import needs_tools
from tests.support.tool import Tool
from tests.trace.made import KERNEL, MadeKernel

AT: Final = 0x400000
SYSTEM = MadeKernel(
    {
        "vectors": ["nop", "b enter", *["nop"] * 30] * 16,
        "enter": ["cbz x0, leave", "b setup_new_exec"],
        "leave": ["nop", "eret"],
        "setup_new_exec": ["nop", "b leave"],
    },
    KERNEL.base,
)
SHELL = MadeKernel({"main": ["nop", "svc #0", "nop", "b main"]}, AT)
CAT = MadeKernel({"main": ["nop", "nop", "svc #0", "b main"]}, AT)
FILES = {"sh": (SHELL, bytes(range(20))), "cat": (CAT, bytes(range(20, 40)))}
VECTOR, ENTER, LEAVE, EXECVE = (SYSTEM.at(name) for name in ("vectors+0x400", "enter", "leave", "setup_new_exec"))
CALL = ((VECTOR, 2, 1, EXCEPTION), (ENTER, 1, 1, 0), (LEAVE, 2, 1, 0))
SHELL_ROUND = ((AT, 2, 0, RETURN), *CALL, (AT + 8, 2, 0, RETURN))
CAT_ROUND = ((AT, 3, 0, RETURN), *CALL, (AT + 12, 1, 0, RETURN))
INTO_CAT = (
    (VECTOR, 2, 1, EXCEPTION),
    (ENTER, 1, 1, 0),
    (ENTER + 4, 1, 1, 0),
    (EXECVE, 2, 1, 0),
    (LEAVE, 2, 1, 0),
    *CAT_ROUND,
)
TASKS = (KernelTask(70, 70, "sh", 1), KernelTask(77, 77, "cat", 70))


@dataclass(frozen=True)
class Memory:
    """Of a process with one program, whose text is at offset 64 of its file."""

    name: str
    program: MadeKernel

    @property
    def maps(self) -> tuple[FileMap, ...]:
        build_id = FILES[self.name][1].hex()
        return (FileMap(start=AT, end=AT + 0x1000, offset=64, path=f"/bin/{self.name}", build_id=build_id),)

    def read(self, vaddr: int, size: int) -> bytes | None:
        words = self.program.words
        data = struct.pack(f"<{len(words)}I", *words).ljust(0x1000, b"\0")
        return data[vaddr - AT :][:size] if vaddr == AT else None


MEMORY = {70: Memory("sh", SHELL), 77: Memory("cat", CAT)}


def rows(*runs: tuple[int, int, tuple[tuple[int, int, int, int], ...]], cpu: int = 0) -> TraceRecords:
    """Records of runs: task, time, and start, count, level and flags of each range."""
    made = np.zeros(sum(len(steps) for _, _, steps in runs), RECORD)
    made["task"], made["time"] = np.repeat([run[:2] for run in runs], [len(run[2]) for run in runs], axis=0).T
    steps = np.array([step for run in runs for step in run[2]], np.uint64)
    made["start"], made["count"], made["level"], made["flags"] = steps.T
    made["cpu"], made["vmid"], made["flags"][0] = cpu, -1, GAP
    return made


def recorded() -> TraceRecords:
    """CPU 0: a shell forks, the child executes cat; CPU 1: only the shell."""
    first = rows((70, 100, SHELL_ROUND), (77, 200, SHELL_ROUND), (77, 300, SHELL_ROUND[:1] + INTO_CAT),
                 (70, 400, SHELL_ROUND * 2), (77, 500, CAT_ROUND * 2))  # fmt: skip
    for begin in (5, 10, 21, 31):  # the switches between them are not shown
        first["flags"][begin] = GAP
    return np.concatenate([first, rows((70, 450, SHELL_ROUND * 3), cpu=1)])


def write(path: Path, records: TraceRecords) -> list[Misfit]:
    earlier, executed = find_earlier_programs(records, EXECVE)
    texts, misfits = find_code(hide(records, earlier), TASKS, MEMORY)
    processes = TracedProcesses(tasks=TASKS, maps={pid: each.maps for pid, each in MEMORY.items()},
                                executed=executed, earlier=earlier, texts=texts)  # fmt: skip
    text = ProgramText([(SYSTEM.base, np.array(SYSTEM.words, np.uint32))])
    place = KernelMap("_text", SYSTEM.base, 4 * len(SYSTEM.words))
    kernel = TracedKernel(text=text, place=place, processes=processes)
    write_perf_trace(path, RecordingHeader(slide=0), records, kernel, levels=(0, 1))
    return misfits


@pytest.fixture
def symfs(tmp_path: Path) -> Path:
    (tmp_path / "root" / "bin").mkdir(parents=True)
    for name, (program, build_id) in FILES.items():
        program.write(tmp_path / "root" / "bin" / name, build_id=build_id)
    return tmp_path / "root"


@pytest.mark.usefixtures("opencsd")
def test_each_range_has_its_program_and_its_name(tmp_path: Path, symfs: Path, tool: Tool) -> None:
    """What the child did as a shell is left out: memory has cat by then, at the same addresses."""
    records = recorded()
    assert write(tmp_path / "perf.data", records) == []
    vmlinux = SYSTEM.write(tmp_path / "vmlinux")
    command = ["trace", "disasm", str(tmp_path / "perf.data"), "--vmlinux", str(vmlinux), "--symfs", str(symfs)]
    found = [json.loads(line) for line in tool(*command, "--format", "jsonl").out.splitlines()[1:]]

    number = np.arange(len(records))
    before = (records["task"] == 77) & (records["level"] == 0) & (number < 16)
    assert before.sum() == 3
    names = np.where(records["task"] == 70, "sh", np.where(number < 16, "", "cat"))
    columns = (records["cpu"], names, records["start"], records["level"] == 0)
    kept = list(zip(*(column[~before].tolist() for column in columns), strict=True))
    said = [
        (row["cpu"], row.get("comm", ""), int(row["start"], 16), row["symbol"].startswith("main [")) for row in found
    ]
    assert sorted(said, key=lambda row: row[0]) == kept
    assert "svc #0" in tool(*command, "--comm", "cat", "--format", "text").out


def test_perf_has_the_same(tmp_path: Path, symfs: Path) -> None:
    needs_tools("perf")
    write(tmp_path / "perf.data", recorded())
    files = ("-k", str(SYSTEM.write(tmp_path / "vmlinux")), "--symfs", str(symfs))

    def perf(*options: str) -> list[list[str]]:
        command = ["perf", "script", "-i", str(tmp_path / "perf.data"), *options]
        return [line.split() for line in subprocess.check_output(command, text=True).splitlines()]

    branches = perf("--itrace=b", "-F", "comm,pid,tid,ip,addr", *files)
    own = {(comm, pid, int(ip, 16)) for comm, pid, ip, *_ in branches}
    assert {("sh", "70/70", AT + 4), ("sh", "70/70", AT + 12)} <= own
    assert {("cat", "77/77", AT + 8), ("cat", "77/77", AT + 12)} <= own
    assert ("cat", "77/77", AT + 4) not in own
    events = [word for line in perf("--show-task-events") for word in line]
    assert "PERF_RECORD_FORK(77:77):(70:70)" in events


def test_memory_with_other_code_than_ran(tmp_path: Path) -> None:
    """The map is there, but something else was at its place when the range ran."""
    through_branch, past_nop, past_branch = ((12, 2),), ((0, 2), (12, 1)), ((12, 1), (8, 1))
    for number, wrong in enumerate((through_branch, past_nop, past_branch)):
        steps = tuple((AT + offset, count, 0, 0) for offset, count in wrong)
        records = rows((77, 500, CAT_ROUND), (77, 600, steps))
        assert write(tmp_path / str(number), records) == [Misfit(77, MEMORY[77].maps[0])]


def test_gaps_are_seen() -> None:
    records = recorded()
    assert has_gaps(records)
    assert not has_gaps(records[:5])


class _Long(Memory):
    """Of a process with a straight line of code over three pages."""

    @property
    def maps(self) -> tuple[FileMap, ...]:
        return (FileMap(start=AT, end=AT + 0x3000, offset=0, path="/bin/cat", build_id=""),)

    def read(self, vaddr: int, size: int) -> bytes | None:
        return struct.pack("<I", NOP) * (size // 4)


def test_code_in_the_middle_of_a_long_range_is_read() -> None:
    records = rows((77, 500, ((AT + 0xFF0, 1100, 0, 0),)))
    texts, misfits = find_code(records, TASKS, {77: _Long("cat", CAT)})
    assert misfits == []
    assert texts[77].code(AT + 0xFF0, 1100) is not None
