"""Targets by name, and command lines that name none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.parser import build_parser
from prologue_bench.targets.choose import choose_target
from prologue_bench.targets.qemu import QemuTarget
from tests.mini_kernel.build import Spec
from tests.support.tool import Tool


def run(tool: Tool, tmp_path: Path, *more: str) -> tuple[int, str]:
    """``bench run`` on a vmlinux that is not there."""
    missing = str(tmp_path / "vmlinux")
    printed = tool("bench", "run", missing, "-o", tmp_path / "out", "--workload", "time:true", *more, status=None)
    return printed.status, printed.err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--variants", "nop-nop,boot,bild"), "'bild' is not one of nop-nop, boot, build"),
        (("--variants", "boot,boot"), "boot is named twice (the A/A control is added by itself)"),
        (("--workload", "time:true"), "workload 'true' is named twice"),
        (("--workload", "hackbench:x"), "'x' is not one of process"),
        (("--target", "board"), "--target board: expected qemu, icount, ssh:HOST or labgrid:"),
        (("--target", "qemu:big"), "--target qemu:big: expected qemu"),
        (("--target", "ssh:"), "--target ssh:: expected qemu"),
        (("--target", "ssh:board", "--ssh-options='x"), """--ssh-options "'x": No closing quotation"""),
        (("--target", "ssh:board", "--install='x"), """install "'x": No closing quotation"""),
        (("--reserve", "board=rpi4"), "--reserve board=rpi4: needs --target labgrid:..."),
        (("--target", "labgrid:farm.yaml", "--reserve", "board"), "--reserve board: expected TAG=VALUE,... such as"),
        (("--target", "labgrid:farm.yaml", "--reserve", "a=b,=c"), "--reserve a=b,=c: expected TAG=VALUE,..."),
        (("--target", "qemu", "--kaslr"), "--kaslr: needs --target icount"),
        (("--target", "icount", "--boots", "1"), "--boots 1: exact counts are taken at least twice"),
        ((), "vmlinux: cannot be opened: No such file or directory"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tool: Tool, tmp_path: Path, more: tuple[str, ...], said: str) -> None:
    status, error = run(tool, tmp_path, *more)
    assert status == 2
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written(tool: Tool, mini: Callable[[Spec], Path], tmp_path: Path) -> None:
    vmlinux = str(mini(Spec()))
    for place in ("/dev/null/x", "/proc/x"):
        printed = tool("bench", "run", vmlinux, "-o", place, "--workload", "time:true", "--modules", tmp_path, status=2)
        assert printed.err.startswith(f"prologue: {place}: ")


@pytest.mark.parametrize(
    ("option", "value", "lowest"),
    [
        ("--boots", "0", 1),
        ("--runs", "x", 1),
        ("--timeout", "-1", 1),
        ("--cpus", "", 1),
        ("--retries", "-1", 0),
        ("--seed", "-1", 0),
    ],
)
def test_numbers_that_cannot_be(tool: Tool, tmp_path: Path, option: str, value: str, lowest: int) -> None:
    status, error = run(tool, tmp_path, option, value)
    assert status == 2
    assert f"{option}: not a number from {lowest} on: {value!r}" in error


@pytest.mark.parametrize(
    ("options", "cpu"),
    [
        ((), "cortex-a57"),
        (("--accel", "kvm"), "host"),
        (("--accel", "kvm", "--cpu-model", "cortex-a53"), "cortex-a53"),
        (("--cpu-model", "max,pauth-impdef=on"), "max,pauth-impdef=on"),
    ],
)
def test_the_cpu_of_a_guest(options: tuple[str, ...], cpu: str) -> None:
    words = ["bench", "run", "vmlinux", "--workload", "time:true", "-o", "out", *options]
    target = choose_target(build_parser().parse_args(words))
    assert isinstance(target, QemuTarget)
    assert target.machine.cpu == cpu
