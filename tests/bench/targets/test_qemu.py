"""The QEMU target on machines that never get to a guest of ours; real guests are in tests/real_kernels."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.main import main
from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.guest.initramfs import build_initramfs, fetch_programs
from prologue_bench.guest.vm import Machine
from prologue_bench.recorder.task import Task
from prologue_bench.results.merge import WHICH
from prologue_bench.targets import qemu
from prologue_bench.targets.base import Attempt
from prologue_bench.targets.qemu import QemuTarget
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.built import Mini
from tests.support.needs import needs_common_tools, or_missing


@pytest.fixture
def attempt(mini: Callable[[Spec], Path], tmp_path: Path) -> Attempt:
    """A boot of the mini kernel, which powers off without a word of our init."""
    needs_common_tools("qemu-system-aarch64")
    with or_missing():
        build_initramfs()
    image = tmp_path / "Image"
    assert main(["image", str(mini(Spec())), "-o", str(image)]) == 0
    return Attempt(image, tmp_path / "logs" / "boot-0001.log", 20, "boot")


@pytest.mark.thorough
@pytest.mark.qemu
def test_a_lost_machine_can_be_booted_again_as_it_was(attempt: Attempt) -> None:
    """Every file that the message names is there."""
    attempt.log.parent.mkdir()
    with pytest.raises(GuestLostError, match="ended without a clean power-off") as lost:
        QemuTarget().boot(attempt, Task(workloads=(), runs=1))
    (command,) = (line for line in lost.value.message.splitlines() if line.startswith("  command: "))
    words = shlex.split(command)
    assert Path(words[words.index("-initrd") + 1]).stat().st_size
    assert Path(words[words.index("-kernel") + 1]) == attempt.image
    # It wrote no results, so there is no such file, and the error names none.
    assert "results until then" not in lost.value.message
    assert sorted(path.name for path in attempt.log.parent.iterdir()) == ["boot-0001.cpio", "boot-0001.log"]


@pytest.mark.qemu
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (Machine(cpu="nonsense"), "unable to find CPU model 'nonsense'"),
        (Machine(cpus=1000), "Invalid SMP CPUs 1000"),
        (Machine(memory=2), "not enough space after kernel to load initrd"),
    ],
)
def test_options_that_qemu_refuses(attempt: Attempt, machine: Machine, said: str) -> None:
    """That is no lost machine, and no other try would help."""
    attempt.log.parent.mkdir()
    with pytest.raises(BenchError, match=said) as refused:
        QemuTarget(machine=machine).boot(attempt, Task(workloads=(), runs=1))
    assert refused.value.exit_code == 2
    assert "\n" not in refused.value.message
    assert [path.name for path in attempt.log.parent.iterdir()] == ["boot-0001.log"]


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


@pytest.fixture
def guest_packages() -> tuple[str, ...]:
    with or_missing():
        return fetch_programs()[1]


@pytest.mark.usefixtures("guest_packages")
def test_hosts_with_other_cpus_are_no_boards_of_one_type() -> None:
    """The host's name says which machine it is, and is left out where setups are compared; its CPUs are not."""
    machine = QemuTarget().facts()
    assert machine["host"] == platform.node()
    assert machine["host cpu"] == qemu.host_cpu()
    assert "host" in WHICH
    assert "host cpu" not in WHICH


def test_the_programs_and_modules_of_the_guest_are_facts(
    mini: Mini, tmp_path: Path, guest_packages: tuple[str, ...]
) -> None:
    bare = QemuTarget().facts()["guest"]
    assert bare.startswith(", ".join(guest_packages))
    seen = {bare}
    for spec in (ModuleSpec("2"), ModuleSpec("4,2")):
        mini(spec).rename(tmp_path / "virtio_mmio.ko")
        seen.add(QemuTarget(modules=tmp_path).facts()["guest"])
    assert len(seen) == 3


@pytest.mark.usefixtures("guest_packages")
def test_tcg_is_smoke_and_says_where_it_ran() -> None:
    target = QemuTarget("tcg-single", Machine(cpus=1))
    assert target.evidence == "smoke"
    facts = target.facts()
    assert facts["cpus"] == "1"
    assert facts["qemu"].endswith(", tcg,thread=single")
    assert facts["host"] == platform.node()
