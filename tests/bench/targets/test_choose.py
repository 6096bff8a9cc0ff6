"""Targets by name, and what of a QEMU target can be seen without a boot."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue.cli.parser import build_parser
from prologue_bench.errors import BenchError
from prologue_bench.guest.vm import Machine
from prologue_bench.targets import qemu
from prologue_bench.targets.choose import choose_target
from prologue_bench.targets.qemu import QemuTarget
from tests.mini_kernel.build import Spec

Said = pytest.CaptureFixture[str]


def run(capsys: Said, tmp_path: Path, *more: str) -> tuple[int, str]:
    """``bench run`` on a vmlinux that is not there."""
    missing = str(tmp_path / "vmlinux")
    status = main(["bench", "run", "--vmlinux", missing, "-o", str(tmp_path / "out"), "--workload", "time:true", *more])
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--variants", "nop-nop,boot,bild"), "'bild' is none of nop-nop, boot, build"),
        (("--variants", "boot,boot"), "boot is named twice (the A/A control is added by itself)"),
        (("--workload", "time:true"), "workload 'true' is named twice"),
        (("--workload", "hackbench:x"), "'x' is none of process"),
        (("--target", "board"), "--target board: expected qemu, icount, ssh:HOST or labgrid:"),
        (("--target", "qemu:big"), "--target qemu:big: expected qemu"),
        (("--target", "ssh:"), "--target ssh:: expected qemu"),
        (("--target", "ssh:board", "--ssh-options='x"), """--ssh-options "'x": No closing quotation"""),
        (("--target", "ssh:board", "--install='x"), """install "'x": No closing quotation"""),
        (("--target", "icount", "--boots", "1"), "--boots 1: exact counts are taken at least twice"),
        ((), "vmlinux: cannot be opened: No such file or directory"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    capsys: Said, tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    status, error = run(capsys, tmp_path, *more)
    assert status == 2
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_place_that_cannot_be_written(capsys: Said, mini: Callable[[Spec], Path]) -> None:
    vmlinux = str(mini(Spec()))
    for place in ("/dev/null/x", "/proc/x"):
        assert main(["bench", "run", "--vmlinux", vmlinux, "-o", place, "--workload", "time:true"]) == 2
        assert capsys.readouterr().err.startswith(f"prologue: {place}: ")


@pytest.mark.parametrize(
    ("option", "value", "lowest"),
    [
        ("--boots", "0", 1),
        ("--runs", "x", 1),
        ("--timeout", "-1", 1),
        ("--smp", "", 1),
        ("--retries", "-1", 0),
        ("--seed", "-1", 0),
    ],
)
def test_numbers_that_cannot_be(capsys: Said, tmp_path: Path, option: str, value: str, lowest: int) -> None:
    with pytest.raises(SystemExit) as done:
        run(capsys, tmp_path, option, value)
    assert done.value.code == 2
    assert f"{option}: not a number from {lowest} on: {value!r}" in capsys.readouterr().err


def test_an_open_quote_for_the_doctor(capsys: Said) -> None:
    assert main(["bench", "doctor", "--target", "ssh:board", "--ssh-options='x"]) == 2
    assert capsys.readouterr().err == """prologue: --ssh-options "'x": No closing quotation\n"""


@pytest.mark.skipif(platform.machine() == "aarch64", reason="this host can have KVM for arm64")
def test_kvm_wants_an_arm64_host() -> None:
    target = QemuTarget("kvm")
    assert target.evidence == "timing"
    with pytest.raises(BenchError, match="arm64 guests run at full speed on arm64 only"):
        target.facts()


def test_kvm_wants_its_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(qemu, "KVM", tmp_path / "kvm")
    with pytest.raises(BenchError, match=r"no access to .*kvm: load the module kvm, or join the group"):
        QemuTarget("kvm").facts()


def test_the_machine_that_is_asked_for(tmp_path: Path) -> None:
    machine = Machine(cpu="max,pauth-impdef=on", cpus=4, memory=2048, accel="kvm", port=tmp_path / "a,b")
    words = machine.command(tmp_path / "Image", None, "")
    joined = " ".join(words)
    for wanted in ("-M virt,gic-version=host", "-cpu max,pauth-impdef=on", "-smp 4", "-m 2048", "-accel kvm"):
        assert wanted in joined
    assert f"file,id=results,path={tmp_path}/a,,b" in words


def test_tcg_is_smoke_and_says_where_it_ran() -> None:
    target = QemuTarget("tcg-single", Machine(cpus=1))
    assert target.evidence == "smoke"
    facts = target.facts()
    assert facts["cpus"] == "1"
    assert facts["qemu"].endswith(", tcg,thread=single")
    assert platform.node() in facts["host"]


@pytest.mark.parametrize(
    ("options", "cpu"),
    [
        ((), "cortex-a57"),
        (("--accel", "kvm"), "host"),
        (("--accel", "kvm", "--cpu", "cortex-a53"), "cortex-a53"),
        (("--cpu", "max,pauth-impdef=on"), "max,pauth-impdef=on"),
    ],
)
def test_the_cpu_of_a_guest(options: tuple[str, ...], cpu: str) -> None:
    words = ["bench", "run", "--vmlinux", "vmlinux", "--workload", "time:true", "-o", "out", *options]
    target = choose_target(build_parser().parse_args(words))
    assert isinstance(target, QemuTarget)
    assert target.machine.cpu == cpu
