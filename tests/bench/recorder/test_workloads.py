"""What ``--workload`` takes, and that the patterns find the numbers in what the programs really print."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from prologue_bench.errors import BenchError
from prologue_bench.recorder.output import read_recorded
from prologue_bench.recorder.script import script
from prologue_bench.recorder.task import Task
from prologue_bench.recorder.workloads import BOOT, parse_workload, parse_workloads
from prologue_bench.results.model import Workload
from tests.support.machine_tree import make_tree
from tests.support.needs import needs_tools

# As rt-tests 2.4 and perf 6.1 print it.
HACKBENCH = """\
Running in process mode with 10 groups using 40 file descriptors each (== 400 tasks)
Each sender will pass 1000 messages of 100 bytes
Time: 5.731
"""
MESSAGING = """\
# Running 'sched/messaging' benchmark:
# 20 sender and receiver threads per group
# 10 groups == 400 threads run

     Total time: 0.265 [sec]
"""


def environment(directory: Path) -> dict[str, str]:
    """That of a made-up machine on which nothing else runs: the recorder would wait for a busy one."""
    return {**os.environ, "PROLOGUE_ROOT": str(make_tree(directory / "machine"))}


def test_a_kernel_build_cleans_its_own_tree_only(tmp_path: Path) -> None:
    """A make of the kernel would do `mrproper` in KBUILD_OUTPUT."""
    needs_tools("bc")
    (tmp_path / "Makefile").write_text(
        "mrproper defconfig vmlinux:\n\t@sleep 0.05; test -z '$(KBUILD_OUTPUT)$(KBUILD_EXTMOD)$(O)'\n"
    )
    task = Task(workloads=(parse_workload(f"kernel-build:{tmp_path},j=2"),), runs=1)
    hostile = {"KBUILD_OUTPUT": "/other/build", "KBUILD_EXTMOD": "/a/module", "MAKEFLAGS": " -- O=/other/build"}
    programs = {**environment(tmp_path), "PATH": os.environ["PATH"], **hostile}
    done = subprocess.run(["sh"], input=script(task), capture_output=True, text=True, check=True, env=programs)
    assert len(read_recorded(done.stdout.splitlines(), task).values) == 1


def extracted(workload: Workload, output: Path) -> float:
    """What the recorder takes from a program's output."""
    instead = replace(workload, command=f"cat {output}")
    task = Task(workloads=(instead,), runs=1)
    done = subprocess.run(["sh"], input=script(task), capture_output=True, text=True, check=True,
                          env=environment(output.parent))  # fmt: skip
    (value,) = read_recorded(done.stdout.splitlines(), task).values[workload.name]
    return value


@pytest.mark.parametrize(
    ("text", "name", "command"),
    [
        (
            "hackbench:process,sockets,g=10,l=1000",
            "hackbench g=10 l=1000, processes, sockets",
            "hackbench -g 10 -l 1000 -P",
        ),
        (
            "hackbench:thread,pipes,g=2,f=5",
            "hackbench g=2 l=100 f=5, threads, pipes",
            "hackbench -g 2 -l 100 -f 5 -T -p",
        ),
        ("hackbench:", "hackbench g=10 l=100, processes, sockets", "hackbench -g 10 -l 100 -P"),
        (
            "perf-messaging:thread,l=5",
            "perf messaging g=10 l=5, threads, sockets",
            "perf bench sched messaging -g 10 -l 5 -t",
        ),
        ("time:sleep 1; true", "sleep 1; true", "sleep 1; true"),
    ],
)
def test_what_is_run(text: str, name: str, command: str) -> None:
    workload = parse_workload(text)
    assert (workload.name, workload.command) == (name, command)
    assert (workload.unit, workload.direction) == ("seconds", "lower")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("text", "output", "value"), [("hackbench:", HACKBENCH, 5.731), ("perf-messaging:", MESSAGING, 0.265)]
)
def test_the_numbers_are_found(tmp_path: Path, text: str, output: str, value: float) -> None:
    (tmp_path / "output").write_text(output)
    assert extracted(parse_workload(text), tmp_path / "output") == value


@pytest.mark.thorough
def test_a_kernel_build_times_only_the_build(tmp_path: Path) -> None:
    """By a clock that cannot be set: the date of this machine goes back by a day whenever it is asked."""
    (tmp_path / "Makefile").write_text("mrproper defconfig:\n\tsleep 1\nvmlinux:\n\tsleep 0.2\n\techo noise\n")
    date = tmp_path / "date"
    days = tmp_path / "days"
    date.write_text(f"#!/bin/sh\necho >>{days}; echo $((1900000000 - 86400 * $(wc -l <{days}))).000000001\n")
    date.chmod(0o755)
    workload = parse_workload(f"kernel-build:{tmp_path},j=2")
    task = Task(workloads=(workload,), runs=1)
    programs = {**environment(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    begin = time.monotonic()
    done = subprocess.run(["sh"], input=script(task), capture_output=True, text=True, check=True, env=programs)
    elapsed = time.monotonic() - begin
    # The two steps before it sleep for a second each; on a busy machine everything else may take any time.
    assert 0.2 <= read_recorded(done.stdout.splitlines(), task).values[workload.name][0] < elapsed - 2
    assert "-j2" in workload.name
    assert "-j$(nproc)" in parse_workload(f"kernel-build:{tmp_path}").command


def test_a_workload_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "w.toml"
    path.write_text(
        'name = "loopback"\ncommand = "iperf3 -c localhost"\nunit = "Gbit/s"\ndirection = "higher"\n'
        "pattern = '\\([0-9.]*\\) Gbits'\n"
    )
    workload = parse_workload(str(path))
    assert (workload.unit, workload.direction) == ("Gbit/s", "higher")
    (tmp_path / "output").write_text(
        "[  5]  0.0-1.0 sec  1.1 GBytes  9.4 Gbits/sec\n[SUM]  0.0-10.0 sec  9.41 Gbits/sec\n"
    )
    assert extracted(workload, tmp_path / "output") == 9.41


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hackbench:proces", "'proces' is not one of process, thread"),
        ("hackbench:process,thread", "both process and thread"),
        ("hackbench:g=0", "'g=0' is not one of"),
        ("perf-messaging:f=3", "'f=3' is not one of"),
        ("kernel-build:", "which tree"),
        ("kernel-build:/usr/src/linux,x=1", "'x=1' is not one of j=N"),
        ("kernel-build:/usr/src/linux,j=two", "'j=two' is not one of j=N"),
        ("time: ", "which command"),
        ("iperf", "unknown; expected hackbench"),
        ("nowhere.toml", "nowhere.toml: No such file"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(BenchError, match=said):
        parse_workload(text)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('name = "a"', "unit: expected text"),
        ('name = "a"\ncommand = "a"\nunit = "MB"\ndirection = "up"\npattern = "x"', r"expected one group"),
        ("name = ", "not TOML"),
        ('nam = "a"', "nam: is not one of"),
        ('name = "a"\ncommand = "a"\nunit = "MB"\ndirection = "higher"', "without a pattern"),
        ('name = "a"\ncommand = "a\\u0000"\nunit = "seconds"\ndirection = "lower"', "command: a NUL"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "w.toml"
    path.write_text(content)
    with pytest.raises(BenchError, match=said):
        parse_workload(str(path))


def test_the_same_twice_is_refused() -> None:
    with pytest.raises(BenchError, match="is named twice"):
        parse_workloads(["hackbench:", "hackbench:sockets,process"])


def test_a_boot_is_no_command() -> None:
    (workload,) = parse_workloads(["boot"], boot=True)
    assert workload == BOOT
    with pytest.raises(BenchError, match="a boot is measured by --target qemu only"):
        parse_workloads(["time:true", "boot"])
