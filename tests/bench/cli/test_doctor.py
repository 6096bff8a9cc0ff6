"""``prologue bench doctor``: this host, a vmlinux, a machine."""

from __future__ import annotations

import platform
import re
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue_bench.cli import doctor
from prologue_bench.recorder.output import Recorded, read_recorded
from prologue_bench.recorder.script import script
from prologue_bench.recorder.task import Task
from prologue_bench.results.model import Readback
from prologue_bench.targets.doctor import Diagnosis, Health, check_host, check_machine, check_vmlinux
from tests.mini_kernel.build import Spec
from tests.support.built import Mini
from tests.support.elf_edit import ElfEdit
from tests.support.machine_tree import BUILD_ID, MOV, kernel_files, make_tree, policy, run_script
from tests.support.tool import Tool

Said = pytest.CaptureFixture[str]


def test_doctor_of_this_host(tool: Tool) -> None:
    diagnoses = check_host()
    said, _, status = tool("bench", "doctor", status=None)
    assert status in (0, 1)
    assert all(f"{diagnosis.health:4}  {diagnosis.what}" in said for diagnosis in diagnoses)
    assert {diagnosis.health for diagnosis in diagnoses} <= {"ok", "warn", "fail"}
    assert all(diagnosis.fix for diagnosis in diagnoses if diagnosis.health != "ok")
    if platform.machine() != "aarch64":
        assert "smoke evidence" in said
    assert not any(line.startswith("ok") for line in tool("bench", "doctor", "-q", status=None).out.splitlines())


@pytest.mark.parametrize(
    ("computer", "compilers"), [("x86_64", ["gcc", "gcc-aarch64-linux-gnu"]), ("aarch64", ["gcc"])]
)
def test_doctor_names_what_is_missing(
    computer: str, compilers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: Tool
) -> None:
    """An arm64 host can be measured itself, and its own compiler makes programs of guests."""
    health: Health = "warn" if computer == "aarch64" else "fail"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: computer)
    found = check_host()
    assert Diagnosis(health, "no cpio: guests cannot be made", "cpio is not installed (Debian package cpio)") in found
    assert (
        Diagnosis("warn", "no ssh: no --target ssh:HOST", "ssh is not installed (Debian package openssh-client)")
        in found
    )
    assert [match[1] for each in found if (match := re.search(r"package (gcc.*)\)", each.fix))] == compilers
    monkeypatch.setattr("prologue_bench.cli.doctor._machine", lambda _: None)  # it would ask this one
    said = tool("bench", "doctor", status=1 if health == "fail" else 0).out
    assert f"{health}  no cpio: guests cannot be made\n      -> cpio is not installed (Debian package cpio)\n" in said


def test_doctor_of_an_arm64_host_names_its_own_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gcc").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert [each.what for each in check_host() if each.health == "ok" and "gcc" in each.what] == ["gcc"]


def test_doctor_without_the_extra(monkeypatch: pytest.MonkeyPatch, tool: Tool) -> None:
    monkeypatch.setattr("prologue_bench.targets.doctor.find_spec", lambda name: None)
    said = tool("bench", "doctor", status=1).out
    assert "fail  no scipy: no bench run, compare, table or plot\n" in said
    assert "table or plot\n      -> pip install 'matplotlib>=" in said
    assert "warn  no matplotlib: no bench plot\n" in said


def test_doctor_of_a_vmlinux(mini: Mini) -> None:
    vmlinux = mini(Spec())
    good, port = check_vmlinux(vmlinux)
    assert (good.health, good.fix) == ("ok", "")
    assert (port.health, port.what) == (
        "warn", "virtio_mmio and virtio_console not built in: guests have no port for results",
    )  # fmt: skip
    assert "--modules" in port.fix
    elf = ElfEdit(vmlinux)
    elf.rename_symbol("_GLOBAL_OFFSET_TABLE_", "virtcons_probe")
    elf.save(vmlinux)
    assert check_vmlinux(vmlinux)[1].what.startswith("virtio_mmio not built in")
    elf.rename_symbol("aarch64_insn_gen_branch_link", "virtio_mmio_probe")
    elf.save(vmlinux)
    assert check_vmlinux(vmlinux)[1].health == "ok"
    vmlinux = mini(Spec())
    variant = vmlinux.with_name("nop-nop")
    assert main(["variant", str(vmlinux), "--kind", "nop-nop", "-o", str(variant)]) == 0
    (unfit,) = check_vmlinux(variant)
    assert (unfit.health, "PL408 bench-variant" in unfit.what) == ("fail", True)
    (ignores,) = check_vmlinux(mini(Spec(ignores_marker=True)))
    assert (ignores.health, "PL407 kernel-ignores-marker" in ignores.what) == ("fail", True)
    (bad,) = check_vmlinux(Path("/bin/sh"))
    assert bad.health == "fail"


def ask(tree: Path, task: Task, tmp: Path) -> Recorded:
    return read_recorded(run_script("dash", script(task), tree, tmp / "programs").stdout.splitlines(), task)


def test_doctor_of_no_machine(tool: Tool) -> None:
    assert "--target qemu: expected ssh:HOST" in tool("bench", "doctor", "--target", "qemu", status=2).err


@pytest.mark.thorough
def test_doctor_of_a_machine(tmp_path: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree(tmp_path / "m", kernel_files({16: MOV}))
    policy(tree, 2, "performance")
    seen = ask(tree, Task(workloads=(), runs=0, sites=(16,)), tmp_path)
    states = {diagnosis.what: diagnosis.health for diagnosis in check_machine(seen)}
    assert states["read back: 1 MOV, 0 NOP in 1 site"] == "ok"
    assert states["governor schedutil: clocks follow the load"] == "warn"
    mixed = Recorded(
        machine=seen.machine,
        readback=Readback(BUILD_ID, 3, 1, 1),
        gate_before=seen.gate_before,
        gate_after=seen.gate_after,
        values={},
    )
    assert "fail" in {diagnosis.health for diagnosis in check_machine(mixed)}
    monkeypatch.setattr(doctor, "check_host", list)
    monkeypatch.setattr(doctor, "_machine", lambda _: partial(ask, tree, tmp=tmp_path))
    assert doctor.run(Namespace(vmlinux=None)) == 0
    assert "->" in capsys.readouterr().out
