"""A board driven through labgrid: its own QEMU driver plays it, with a shell on a serial console."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import tests.support.board
from prologue.cli.main import main
from prologue_bench.errors import GuestLostError
from prologue_bench.guest.initramfs import pack
from prologue_bench.guest.modules import load_order
from prologue_bench.recorder.sampling import sample_sites
from prologue_bench.recorder.task import Task
from prologue_bench.results.model import Workload
from prologue_bench.targets.base import Attempt
from tests.support.board.machine import free_port, make_key
from tests.support.board.system import pack_board
from tests.support.debian.kernels import DebianKernel
from tests.support.farm.lab import pack_shell
from tests.support.needs import needs_dev_module, needs_kernel, needs_modules, needs_tools
from tests.support.processes import commands_with

needs_dev_module("labgrid")
from prologue_bench.targets.labgrid import LabgridTarget  # noqa: E402 - it imports labgrid

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.timeout(900)]

# labgrid starts QEMU as it likes; this takes it along when the test is killed.
QEMU = '#!/bin/sh\nexec setpriv --pdeathsig KILL qemu-system-aarch64 "$@"\n'
ENVIRONMENT = """
targets:
  board:
    resources: {resources}
    drivers:
      QEMUDriver:
        qemu_bin: qemu
        machine: virt,gic-version=3
        cpu: cortex-a57
        memory: 1G
        kernel: kernel
        boot_args: console=ttyAMA0 loglevel={loglevel}
        extra_args: -smp 2 -nodefaults -initrd {initramfs} -name {tag} {more}
      {driver}
tools:
  qemu: {qemu}
images:
  kernel: {image}
"""
SERIAL = """ShellDriver: {prompt: 'board# ', login_prompt: 'login: ', username: root, login_timeout: 200}
      ShellStrategy: {}"""
HACKBENCH = Workload("hackbench", "hackbench -g 1 -l 5", "seconds", "lower", pattern=r"^Time: *\([0-9][0-9]*\.[0-9]*\)")

SITES = 20


@dataclass(frozen=True, slots=True)
class Images:
    """Two variants of one link as flat Images, and some of their sites as bytes from ``_stext``."""

    linked: Path
    unwritten: Path
    kernel: DebianKernel
    sites: tuple[int, ...]


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    needs_tools("qemu-system-aarch64", "setpriv")
    kernel = needs_kernel("bookworm")
    vmlinux = kernel.vmlinux
    directory = tmp_path_factory.mktemp("images")
    unwritten = directory / "vmlinux.nop-nop"
    assert main(["variant", str(vmlinux), "--kind", "nop-nop", "-o", str(unwritten)]) == 0
    made = Images(directory / "Image.boot", directory / "Image.nop-nop", kernel, sample_sites(vmlinux, SITES))
    assert main(["image", str(vmlinux), "-o", str(made.linked)]) == 0
    assert main(["image", str(unwritten), "-o", str(made.unwritten)]) == 0
    unwritten.unlink()
    yield made
    shutil.rmtree(directory)


@dataclass(frozen=True, slots=True)
class Farm:
    """An environment file; ``tag`` is in the command line of each QEMU that it starts."""

    environment: Path
    tag: str


def farm(directory: Path, image: Path, initramfs: bytes, **settings: str) -> Farm:
    tool, archive, tag = directory / "qemu", directory / "board.cpio", f"labgrid-{secrets.token_hex(8)}"
    tool.write_text(QEMU)
    tool.chmod(0o755)
    archive.write_bytes(initramfs)
    text = ENVIRONMENT.format(qemu=tool, initramfs=archive, image=image, tag=tag, **settings)
    (directory / "environment.yaml").write_text(text)
    return Farm(directory / "environment.yaml", tag)


def test_a_board_on_a_serial_line(images: Images, tmp_path: Path) -> None:
    lab = farm(tmp_path, images.linked, pack_shell(), driver=SERIAL, resources="{}", more="", loglevel="4")
    task = Task(workloads=(HACKBENCH,), runs=2, sites=images.sites)
    garbage = tmp_path / "garbage"
    garbage.write_bytes(b"\xff" * 65536)
    target = LabgridTarget(lab.environment, "board")
    # A lost boot first: what it leaves behind must not be in the way of the next.
    lost = Attempt(garbage, tmp_path / "lost.log", 8, "garbage")
    with pytest.raises(GuestLostError, match=r"board lost: not done within 8 s; console in .*lost\.log"):
        target.boot(lost, task)
    assert commands_with(lab.tag) == []

    facts = target.facts()
    assert target.evidence == "smoke"
    assert facts["target"] == "labgrid"
    assert facts["board"] == "board"
    assert facts["arch"] == "aarch64"
    assert facts["model"] == "linux,dummy-virt"
    assert facts["cpu"] == "2 0xd07"
    assert facts["cpus"] == "2"
    assert facts["virtual"] == "other"
    assert target.facts() is facts

    log = tmp_path / "boot.log"
    seen = target.boot(Attempt(images.linked, log, 400, "boot"), task)
    assert commands_with(lab.tag) == []
    assert len(seen.values["hackbench"]) == 2
    assert min(seen.values["hackbench"]) > 0
    assert seen.readback is not None
    assert (seen.readback.mov, seen.readback.nop) == (len(images.sites), 0)
    assert "@prologue " in log.read_text(errors="replace")


@pytest.mark.extended  # labgrid as in the test above, and ssh as in test_ssh_board
def test_board_over_ssh_without_a_strategy(images: Images, tmp_path: Path) -> None:
    needs_tools("ssh", "ssh-keygen", "dpkg-deb")
    key, port = make_key(tmp_path), free_port()
    modules = load_order(needs_modules(images.kernel), ("virtio_pci", "virtio_net"))
    initramfs = pack_board(modules, key.with_suffix(".pub").read_text(), tmp_path)
    # Nobody reads the console meanwhile, and QEMU lets the guest wait when it has written a few lines there.
    init = Path(tests.support.board.__file__).with_name("init").read_bytes()
    initramfs += pack({"init": b"#!/bin/busybox sh\nexec /bin/busybox sh /quiet >/log 2>&1\n", "quiet": init})
    lab = farm(
        tmp_path,
        images.linked,
        initramfs,
        driver=f"SSHDriver: {{keyfile: {key}, connection_timeout: 200.0}}",
        resources=f"{{NetworkService: {{address: 127.0.0.1, port: {port}, username: root}}}}",
        more=f"-netdev user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22 "
        "-device virtio-net-pci,netdev=net,romfile=",
        loglevel="1",
    )
    target = LabgridTarget(lab.environment, "board")
    seen = target.boot(
        Attempt(images.unwritten, tmp_path / "log", 400, "nop-nop"),
        Task(workloads=(HACKBENCH,), runs=1, sites=images.sites),
    )
    assert len(seen.values["hackbench"]) == 1
    assert seen.readback is not None
    assert seen.readback.nop == len(images.sites)
    assert commands_with(lab.tag) == []
