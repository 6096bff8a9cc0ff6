"""Campaigns on a real Debian kernel in QEMU, as a user runs them: recorded, stopped, killed, gone on with, reported."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from prologue.kernel.kernel import Kernel
from prologue_bench.results.store import RESULTS, read_results
from tests.support.needs import needs_kernel, needs_modules, needs_tools
from tests.support.processes import HEEDING, commands_with
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.timeout(1200)]

SUITE = "bookworm"
PROLOGUE = (sys.executable, "-m", "prologue", "bench", "run")


def command(directory: Path, *more: object) -> list[str]:
    """The arguments of a small campaign."""
    kernel = needs_kernel(SUITE)
    modules = needs_modules(kernel)
    arguments: list[object] = [kernel.vmlinux, "--modules", modules, "--timeout", 120, "-o", directory]
    return [str(argument) for argument in (*arguments, *more)]


def test_recorded_killed_stopped_and_resumed(tmp_path: Path, tool: Tool) -> None:
    needs_tools("qemu-system-aarch64")
    directory = tmp_path / "campaign"
    plan = ("--variants", "nop-nop,build", "--boots", 1, "--runs", 2, "--seed", 7,
            "--workload", "hackbench:process,sockets,g=1,l=5", "--workload", "time:true",
            "--workload", "boot")  # fmt: skip
    arguments = command(directory, *plan)
    # Killed while the second machine runs: with it, and nothing that was recorded is lost.
    first = start(arguments, directory / "logs" / "boot-0002.log", signal.SIGKILL)
    assert first.returncode == -signal.SIGKILL
    before = (directory / RESULTS).read_bytes()
    assert before.count(b"\n") == 1
    assert not machines(directory)
    # Ctrl-C, and a terminal that goes away: says how it stands and how to go on.
    for how in (signal.SIGINT, signal.SIGHUP):
        stopped = start(arguments, directory / "logs" / "boot-0002.log", how)
        assert stopped.returncode == 130
        assert "the same command resumes" in stopped.stderr
        assert not machines(directory)
        assert (directory / RESULTS).read_bytes() == before
    assert sorted(path.name for path in (directory / "images").iterdir()) == ["Image.build", "Image.nop-nop"]
    # The rest.
    said = tool("bench", "run", *arguments)
    assert (directory / RESULTS).read_bytes().startswith(before)
    assert "same link: 0 of " in said.out
    assert "smoke" in said.out
    assert "%" not in said.out.replace("%)", "")  # no percentage of TCG's times
    results = read_results(directory)
    # a busy host may make a boot void, which is then repeated
    valid = [boot for boot in results.boots if boot.void is None]
    assert sorted(boot.variant for boot in valid) == ["build", "nop-nop", "nop-nop (A/A)"]
    assert results.campaign.evidence == "smoke"
    for boot in valid:
        assert [len(values) for values in boot.values.values()] == [2, 2, 1]
        assert all(value > 0 for values in boot.values.values() for value in values)
        # A boot gives one time of itself.
        assert 0.1 < boot.values["boot"][0] < 120
        # the treatment, as the running machine showed it
        assert boot.readback is not None
        assert boot.readback.build_id == Kernel(needs_kernel(SUITE).vmlinux).build_id
        assert boot.readback.sites >= 128
        seen = boot.readback.nop if boot.variant.startswith("nop-nop") else boot.readback.mov
        assert seen == boot.readback.sites
        assert (directory / "logs" / f"boot-{boot.number:04d}.log").stat().st_size
    # Reports of what was recorded.
    for report in (["compare"], ["table"], ["compare", "--json"], ["plot", "-o", tmp_path / "plot.png"]):
        tool("bench", report[0], directory, *report[1:])
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def start(arguments: list[str], log: Path, how: signal.Signals) -> subprocess.CompletedProcess[str]:
    """Run a campaign until that boot's console says something, then send the signal."""
    log.unlink(missing_ok=True)
    process = subprocess.Popen(
        [*HEEDING, *PROLOGUE, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 300
        while not (log.exists() and log.stat().st_size):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(how)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, process.returncode, "", said)


def machines(directory: Path) -> list[str]:
    """QEMU processes that use this directory, some seconds on."""
    time.sleep(1)
    return [command for command in commands_with(str(directory)) if "qemu" in command]


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (
            "time:echo c >/proc/sysrq-trigger",
            ("ended without a clean power-off (Kernel panic - not syncing: sysrq triggered crash)", "el0_svc"),
        ),
        pytest.param(
            "time:echo hangs >/dev/console; sleep 600",
            ("no power-off within 45 s", "hangs"),
            marks=pytest.mark.extended,  # it waits
        ),
    ],
    ids=["panic", "hang"],
)
def test_a_lost_machine(tmp_path: Path, tool: Tool, workload: str, said: tuple[str, ...]) -> None:
    """Exit 4 with the console's last words, within the bound, and what was recorded stays."""
    needs_tools("qemu-system-aarch64")
    directory = tmp_path / "campaign"
    plan = ("--boots", 1, "--runs", 1, "--variants", "boot", "--no-control", "--timeout", 45)
    arguments = command(directory, *plan, "--retries", 0, "--workload", workload)
    error = tool("bench", "run", *arguments, status=4).err
    assert "given up after 1 try" in error
    assert str(directory / "logs" / "boot-0001.log") in error
    assert "qemu-system-aarch64 -M virt" in error
    assert (directory / "logs" / "boot-0001.cpio").stat().st_size  # that command wants it
    assert all(words in error for words in said)
    lines: list[dict[str, Any]] = [json.loads(line) for line in (directory / RESULTS).read_text().splitlines()]
    assert [line["void"] for line in lines] == [f"lost: {said[0]}"]
    assert not machines(directory)
