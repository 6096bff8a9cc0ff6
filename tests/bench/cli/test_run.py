"""``bench run`` as a command: which directories it refuses, and how it ends; its machines here run no workload."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from prologue.plan.variants import KINDS
from prologue_bench.cli import run as run_command
from prologue_bench.recorder.output import Recorded
from prologue_bench.recorder.task import Task
from prologue_bench.results.model import Evidence, Readback
from prologue_bench.results.store import CAMPAIGN, read_results
from prologue_bench.targets.base import Attempt
from tests.bench.campaign.made import MadeTarget
from tests.mini_kernel.build import Spec
from tests.support.needs import needs_common_tools, needs_tools
from tests.support.tool import Printed, Tool

Mini = Callable[[Spec], Path]


@dataclass
class Machine(MadeTarget):
    """Boots what it is given, and another kernel at its boots of these numbers."""

    wrong: tuple[int, ...] = ()
    boots: list[str] = field(default_factory=list)
    evidence: Evidence = "smoke"

    def boot(self, attempt: Attempt, task: Task) -> Recorded:
        self.boots.append(attempt.label)
        readback = Readback("5eed", 9, 0, 9) if len(self.boots) in self.wrong else None
        values = {workload.name: (1.5,) * task.runs for workload in task.workloads}
        return Recorded(machine={}, readback=readback, gate_before={}, gate_after={}, values=values)


def run(tool: Tool, vmlinux: Path, directory: Path, *more: str, status: int | None = 0) -> Printed:
    return tool("bench", "run", vmlinux, "-o", directory, "--workload", "time:true", *more, status=status)


def hashes(directory: Path) -> dict[str, str]:
    """Every file below, by its name, but for the lock."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def test_a_guest_without_a_port_for_results_is_refused_before_it_boots(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    vmlinux, directory = mini(Spec()), tmp_path / "campaign"
    printed = run(tool, vmlinux, directory, status=2)
    assert f"{vmlinux}: virtio_mmio and virtio_console not built in, so a guest has no port" in printed.err
    assert not directory.exists()


@pytest.mark.qemu
@pytest.mark.kernel  # its guest's root file system is made of Debian's packages
def test_a_refused_plan_touches_nothing(mini: Mini, tmp_path: Path, tool: Tool) -> None:
    """The Images of another link have the same names."""
    needs_common_tools("qemu-system-aarch64")
    (modules := tmp_path / "modules").mkdir()
    directory, plan = tmp_path / "campaign", ("--retries", "0", "--timeout", "20", "--modules", str(modules))
    run(tool, mini(Spec()), directory, *plan, status=4)  # a mini kernel powers off without a word
    begun = hashes(directory)
    campaign: dict[str, Any] = json.loads((directory / CAMPAIGN).read_text())
    assert {begun[f"images/Image.{v['kind']}"] for v in campaign["variants"]} == {
        v["image_sha256"] for v in campaign["variants"]
    }
    assert "was begun with another plan (kernel " in run(tool, mini(Spec(layout="4,2")), directory, *plan, status=2).err
    assert hashes(directory) == begun
    assert {path.name for path in (directory / "images").iterdir()} == {f"Image.{kind}" for kind in KINDS}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ((), ""),
        ((1,), "1 of 4 boots stayed void"),
        ((1, 2, 3, 4), "no report: true: no valid boot of the base 'nop-nop'"),
    ],
)
def test_places_without_a_boot_are_findings(
    mini: Mini, monkeypatch: pytest.MonkeyPatch, tool: Tool, wrong: tuple[int, ...], said: str
) -> None:
    vmlinux = mini(Spec())
    directory = vmlinux.with_name("campaign")
    plan = ("--variants", "nop-nop,boot", "--no-control", "--boots", "2", "--runs", "1", "--retries", "0")
    monkeypatch.setattr(run_command, "choose_target", lambda _: Machine(wrong))
    output = run(tool, vmlinux, directory, *plan, status=1 if wrong else 0)
    assert said in output.err
    _, proof, report = output.out.partition("boot: as linked\n")
    assert proof
    assert ("nop-nop" in report) == (len(wrong) < 4)
    assert [boot.number for boot in read_results(directory).boots if boot.void] == list(wrong)
    command = str(json.loads((directory / CAMPAIGN).read_text())["command"])
    said = "--boots 2 --runs 1 --seed 1 --no-control --retries=0 -o"
    assert said in command, "what is not a default, and what the plan is made of"
    # The same command tries again what is missing, and then all is well.
    monkeypatch.setattr(run_command, "choose_target", lambda _: Machine())
    run(tool, vmlinux, directory, *plan)
    assert len(read_results(directory).boots) == 4 + len(wrong)


def test_quiet_leaves_the_report_and_what_is_wrong(mini: Mini, monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    vmlinux = mini(Spec())
    monkeypatch.setattr(run_command, "choose_target", lambda _: Machine((2,)))
    plan = ("--variants", "nop-nop,boot", "--no-control", "--boots", "3", "--runs", "1", "--retries", "0")
    output = run(tool, vmlinux, vmlinux.with_name("campaign"), *plan, "-q", status=1)
    assert output.out.startswith("true; seconds, lower is better\n")
    void, left = output.err.splitlines()
    assert void.startswith("warning: boot 2, 1/6: ")
    assert left.startswith("warning: 1 of 6 boots stayed void")


def test_only_counts_of_the_boot_need_no_workload(tmp_path: Path, tool: Tool) -> None:
    plan = ["bench", "run", str(tmp_path / "none"), "-o", str(tmp_path / "campaign")]
    assert "--target qemu: nothing to measure; name at least one --workload" in tool(*plan, status=2).err
    assert "none: " in tool(*plan, "--target", "icount", status=2).err  # one step further: the vmlinux is missing


@pytest.mark.parametrize("option", ["--counters", "--governor=performance"])
def test_what_exact_counts_have_no_use_for(tmp_path: Path, tool: Tool, option: str) -> None:
    plan = ["bench", "run", str(tmp_path / "none"), "-o", str(tmp_path / "campaign"), "--target", "icount"]
    printed = tool(*plan, option, status=2)
    assert f"{option.partition('=')[0]}: not with --target icount, which counts instructions" in printed.err


def test_a_board_that_is_down_is_noticed_before_images_are_made(mini: Mini, tool: Tool) -> None:
    needs_tools("ssh")
    vmlinux = mini(Spec())
    directory = vmlinux.with_name("campaign")
    nobody = ("--target", "ssh:root@127.0.0.1", "--ssh-options=-F none -p 1 -o BatchMode=yes")
    printed = run(tool, vmlinux, directory, *nobody, status=4)
    assert "root@127.0.0.1 does not answer: ssh: connect to host 127.0.0.1 port 1: " in printed.err
    assert [path.name for path in directory.iterdir()] == ["lock"]
