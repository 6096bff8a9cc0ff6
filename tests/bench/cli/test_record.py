"""``prologue bench record``, from the command line to the file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.machine_tree import BUILD_ID, make_tree, notes
from tests.support.processes import HEEDING, until_gone
from tests.support.tool import Printed, Tool


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A quiet made-up machine, for the script that the command runs."""
    root = make_tree(tmp_path / "machine")
    monkeypatch.setenv("PROLOGUE_ROOT", str(root))
    monkeypatch.delenv("LABEL", raising=False)
    return root


def record(tool: Tool, *arguments: str | Path, status: int | None = 0) -> Printed:
    return tool("bench", "record", *arguments, status=status)


@pytest.mark.thorough
def test_wall_time_is_recorded(machine: Path, tmp_path: Path, tool: Tool) -> None:
    path = tmp_path / "boots.jsonl"
    said = record(tool, "--label", "nop;nop", "-o", path, "--runs", "2", "--command", "sh -c 'sleep 0.02; echo -n'").out
    assert said.startswith(f"{path}: boot 0f7b223f-111d-4276-9ff1-e91128499938 recorded as nop;nop\n")
    assert "not read back: no sites were asked for" in said
    (row,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert (row["schema"], row["label"], row["runs"], row["void"]) == ("prologue.bench-record/1", "nop;nop", 2, None)
    assert row["kernel"] == {"release": os.uname().release, "build_id": BUILD_ID}
    assert row["workloads"] == [{"name": "sh -c 'sleep 0.02; echo -n'", "command": "sh -c 'sleep 0.02; echo -n'",
                                 "unit": "seconds", "direction": "lower", "pattern": None}]  # fmt: skip
    ((_, values),) = row["values"].items()
    assert len(values) == 2
    assert all(0.02 <= value < 60 for value in values)


@pytest.mark.thorough
def test_numbers_are_taken_from_output_and_files_grow(machine: Path, tmp_path: Path, tool: Tool) -> None:
    path = tmp_path / "boots.jsonl"
    options = ("--pattern", r"rate \([0-9.]*\)", "--unit", "MB/s", "--direction", "higher", "-o", path, "--runs", "1")
    for k, label in enumerate(("base", "mov")):
        (machine / "proc/sys/kernel/random/boot_id").write_text(f"boot-{k}\n")
        record(tool, "--label", label, *options, "--command", "for x in 1 2; do echo rate $x.5; done")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["values"] for row in rows] == [{"for x in 1 2; do echo rate $x.5; done": [2.5]}] * 2
    assert main(["bench", "table", str(path)]) == 0


@pytest.mark.thorough
def test_a_workload_by_its_short_name(machine: Path, tmp_path: Path, tool: Tool) -> None:
    path = tmp_path / "boots.jsonl"
    record(tool, "--label", "x", "-o", path, "--runs", "1", "--workload", "time:true", "--workload", "time:sleep 0")
    assert list(json.loads(path.read_text())["values"]) == ["true", "sleep 0"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give either --workload SPEC or --command COMMAND"),
        (("--workload", "time:true", "--command", "true"), "give either --workload SPEC or --command COMMAND"),
        (("--workload", "time:true", "--unit", "s"), "describe --command, not"),
        (("--pattern", "x", "--command", "true"), "go together"),
        (("--pattern", "x", "--unit", "s", "--direction", "lower", "--command", "true"), "one group"),
        (("--command", "sh -c 'echo broken >&2; exit 3'"), "run 1: exit status 3; last line of its output: broken"),
        (("--vmlinux", "nowhere", "--command", "true"), "nowhere: "),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    arguments: tuple[str, ...], said: str, machine: Path, tmp_path: Path, tool: Tool
) -> None:
    printed = record(tool, "--label", "x", "-o", tmp_path / "boots.jsonl", *arguments, status=2)
    (line,) = [line for line in printed.err.splitlines() if line.startswith("prologue: ")]
    assert said in line
    assert not (tmp_path / "boots.jsonl").exists()


def test_records_must_be_known_by_their_name(machine: Path, tmp_path: Path, tool: Tool) -> None:
    printed = record(tool, "--label", "x", "-o", tmp_path / "boots", "--command", "true", status=2)
    assert f"use {tmp_path / 'boots'}.jsonl" in printed.err
    assert list(tmp_path.glob("boots*")) == []


@pytest.mark.thorough
def test_a_void_boot_is_kept_and_told(machine: Path, tmp_path: Path, tool: Tool) -> None:
    tainted = machine / "proc/sys/kernel/tainted"
    path = tmp_path / "boots.jsonl"
    printed = record(tool, "--label", "x", "-o", path, "--runs", "1", "--command", f"echo 512 >{tainted}", status=1)
    assert "void, does not count: kernel's taint changed: 0 before, 512 after" in printed.out
    assert json.loads(path.read_text())["void"].startswith("kernel's taint changed")


@pytest.mark.thorough
def test_advice_comes_before_the_work(machine: Path, tmp_path: Path, tool: Tool) -> None:
    said = record(tool, "--label", "x", "-o", tmp_path / "a.jsonl", "--runs", "1", "--command", "true").err
    assert "governor schedutil: clocks follow the load: --governor performance\n" in said
    assert "2 kinds of CPU, and no pinning" in said
    printed = record(tool, "--label", "x", "-o", tmp_path / "b.jsonl", "--governor", "performance", "--command", "true")
    assert "governor" not in printed.err
    assert (machine / "sys/devices/system/cpu/cpufreq/policy0/scaling_governor").read_text() == "schedutil\n"


@pytest.mark.thorough
def test_another_kernel_is_refused_before_the_work(machine: Path, tmp_path: Path, mini: Mini, tool: Tool) -> None:
    vmlinux = mini(Spec())
    (tmp_path / "notes").write_bytes(notes("cd" * 20))
    objcopy = ["aarch64-linux-gnu-objcopy", "--add-section", f".note.id={tmp_path / 'notes'}"]
    subprocess.run([*objcopy, str(vmlinux)], check=True)
    arguments = ("--vmlinux", vmlinux, "--command", f"touch {tmp_path / 'ran'}")
    printed = record(tool, "--label", "x", "-o", tmp_path / "a.jsonl", *arguments, status=2)
    said = f"prologue: {vmlinux}: is not the kernel that runs here: build-id {'cd' * 20}, running is {BUILD_ID}"
    assert printed.err == said + "\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_stops_what_it_started(sign: signal.Signals, machine: Path, tmp_path: Path) -> None:
    governor = machine / "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
    pid, path = tmp_path / "pid", tmp_path / "a.jsonl"
    command = ["bench", "record", "--label", "x", "--governor", "performance", "-o", str(path), "--command",
               f"echo $$ >{pid}; exec sleep 300"]  # fmt: skip
    program = [*HEEDING, sys.executable, "-m", "prologue"]
    process = subprocess.Popen([*program, *command], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 600
    while not (pid.exists() and pid.read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(sign)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 130
    assert said.endswith("prologue: interrupted\n")
    assert governor.read_text() == "schedutil\n"
    assert until_gone(int(pid.read_text()))
    assert not path.exists()


@pytest.mark.thorough
def test_a_script_for_a_board(machine: Path, tmp_path: Path, tool: Tool) -> None:
    path = tmp_path / "record.sh"
    text, hint, _ = record(tool, "--label", "it's nop", "--runs", "1", "--script", "--command", "echo done")
    assert "LABEL='it'\"'\"'s nop' sh SCRIPT >> boots.log" in hint
    path.write_text(text)
    log = tmp_path / "boots.log"
    for k, label in enumerate(({}, {"LABEL": "mov $(id)"})):
        (machine / "proc/sys/kernel/random/boot_id").write_text(f"boot-{k}\n")
        with log.open("a") as stream:
            subprocess.run(["sh", str(path)], stdout=stream, check=True, env={**os.environ, **label})
    rows = tool("bench", "table", log, "--json").json["rows"]
    assert [row["variant"] for row in rows] == ["it's nop", "mov $(id)"]
