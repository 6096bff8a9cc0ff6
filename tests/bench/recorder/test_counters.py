"""Counters of the CPU: what the recorder's script does around each run, what is read of it, and what is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prologue_bench.errors import BenchError
from prologue_bench.recorder.output import Recorded, read_recorded
from prologue_bench.recorder.record import decode_record, encode_record, make_record
from prologue_bench.recorder.script import script
from prologue_bench.recorder.task import Task
from prologue_bench.results.counters import CounterReading, parse_counters
from prologue_bench.results.fields import parse
from prologue_bench.results.model import Workload
from tests.support.cases import one_quick
from tests.support.machine_tree import make_tree, path_of, run_script, shells

# What stands in for the program of arm64: the same arguments, and lines of a run.
COUNTS = """#!/bin/sh
sh -c "$2"
status=$?
echo 'instructions 1000 40 40
cycles 700 40 20
iTLB-load-misses - ENOENT' >"$1"
exit $status
"""
NOTHING = """#!/bin/sh
echo 'instructions - %s
cycles - %s' >"$1"
"""
GREETING = Workload("greeting", "echo took 2.5", "seconds", "lower", pattern=r"took \([0-9.]*\)")


@pytest.fixture(params=one_quick(*shells()))
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(shell: str, program: str, tmp: Path, more: dict[str, str | bytes] | None = None) -> Recorded:
    task = Task(workloads=(GREETING,), runs=2, counter=program.encode())
    (tmp / "temporary files").mkdir()
    tree, programs = make_tree(tmp / "machine", more), tmp / "programs"
    path_of(shell, programs)
    programs.mkdir()
    if shell == "busybox":
        for name in ("mktemp", "chmod", "rm"):
            (programs / name).symlink_to("/bin/busybox")
    done = run_script(shell, script(task), tree, programs, {"TMPDIR": str(tmp / "temporary files")})
    assert (done.returncode, done.stderr) == (0, "")
    assert not list((tmp / "temporary files").iterdir())
    return read_recorded(done.stdout.splitlines(), task)


def test_each_run_is_counted_and_nothing_stays(shell: str, tmp_path: Path) -> None:
    seen = run(shell, COUNTS, tmp_path)
    assert seen.values == {"greeting": (2.5, 2.5)}
    assert seen.machine["counters"] == "per run"
    assert seen.counters == {
        "greeting": {
            "instructions": (CounterReading(1000, 40, 40),) * 2,
            "cycles": (CounterReading(700, 40, 20),) * 2,
            "iTLB-load-misses": ("ENOENT",) * 2,
        }
    }
    assert [r.scaled for r in seen.counters["greeting"]["cycles"] if isinstance(r, CounterReading)] == [1400, 1400]
    # Records keep them; those of before have none.
    record = make_record(seen, Task(workloads=(GREETING,), runs=2), "base", "here")
    line = encode_record(record)
    assert decode_record(parse(line, "here")).boot.counters == seen.counters
    old = line.replace('"counters": {"greeting"', '"other": {"greeting"')
    assert decode_record(parse(old, "here")).boot.counters == {}


@pytest.mark.parametrize(
    ("program", "more", "said"),
    [
        (NOTHING % ("EACCES", "EACCES"), {"proc/sys/kernel/perf_event_paranoid": "3\n"},
         r"no event \(EACCES\): be root, or set kernel.perf_event_paranoid to 1 \(it is 3\)"),
        (NOTHING % ("ENOENT", "ENOENT"), {}, r"no event \(ENOENT\): this kernel knows no counters of the CPU"),
        (NOTHING % ("ENOSYS", "ENOSYS"), {}, "lacks CONFIG_PERF_EVENTS"),
        ("#!/nowhere/program\n", {}, "is for arm64, and cannot run in .*: if that is mounted noexec, set TMPDIR"),
        (COUNTS, {f"sys/bus/event_source/devices/armv8_cortex_a{k}/cpus": "0-3\n" for k in (53, 72)},
         "2 kinds of CPUs, and an event counts on CPUs of one kind only"),
    ],
)  # fmt: skip
def test_nothing_is_measured_without_counters(
    program: str, more: dict[str, str | bytes], said: str, tmp_path: Path
) -> None:
    with pytest.raises(BenchError, match=f"^--counters: .*{said}"):
        run("dash", program, tmp_path, more)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("instructions 1 2", "expected NAME COUNT ENABLED RUNNING"),
        ("instructions -1 2 3", "expected NAME COUNT ENABLED RUNNING"),
        ("instructions -", "expected NAME COUNT ENABLED RUNNING"),
        ("branches 1 2 3", "expected another event"),
        ("cycles 1 2 3", "expected another event"),
    ],
)
def test_other_lines_are_refused(line: str, said: str) -> None:
    with pytest.raises(BenchError, match=f"here: counters: {said}, found"):
        parse_counters(["cycles 1 2 2", line], "here")


@pytest.mark.beyond  # busybox is one of the shells
@pytest.mark.parametrize("shell", shells())
def test_the_program_arrives_whole(shell: str, tmp_path: Path) -> None:
    program = bytes(range(256)) * 2 + b"\0007%d\\n\\0\\c'\n\n"
    text = script(Task(workloads=(), runs=0, counter=program))
    assignment = next(line for line in text.splitlines() if line.startswith("counter="))
    command = [*shells()[shell], "-c", f'{assignment}\nprintf %b "$counter"']
    done = subprocess.run(command, capture_output=True, check=True)
    assert done.stdout == program
