"""The ssh target on a board of QEMU's: an ssh server, kexec, and all that can go wrong with a board."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from prologue.cli.main import main
from prologue_bench.errors import GuestLostError
from prologue_bench.guest.modules import load_order
from prologue_bench.recorder.sampling import sample_sites
from prologue_bench.recorder.task import Task
from prologue_bench.recorder.workloads import parse_workload
from prologue_bench.results.store import read_results
from prologue_bench.targets.base import Attempt
from prologue_bench.targets.remote import Remote, Transcript
from prologue_bench.targets.ssh import SshTarget
from tests.support.board.machine import DISK, DRIVERS, Board, free_port, login, make_key, running
from tests.support.board.system import pack_board
from tests.support.needs import needs_kernel, needs_modules, needs_tools
from tests.support.tool import Tool

pytestmark = [pytest.mark.kernel, pytest.mark.qemu]

HOST: Final = "root@127.0.0.1"
REBOOTS: Final = pytest.mark.extended  # test_a_campaign_by_kexec boots the board often enough
KEXEC: Final = f"kexec --no-checks --initrd={DISK}"  # the sum over the Image takes TCG seconds
TIMEOUT: Final = 200
SITES: Final = 64
# Does what the target's own kexec does, the way a user would write it.
HOOK: Final = """#!/bin/sh -e
image=$1 host=$2
[ "$image" = "$PROLOGUE_IMAGE" ] && [ "$host" = "$PROLOGUE_HOST" ]
echo "hook: $PROLOGUE_LABEL"
there() {{ ssh {options} "$host" "$1"; }}
there 'cat >/tmp/mine' <"{installed}"
there 'kexec -l /tmp/mine --reuse-cmdline --no-checks --initrd={disk}'
there '(sleep 1; kexec -e) >/dev/null 2>&1 </dev/null &'
"""


@dataclass(frozen=True, slots=True)
class Lab:
    """A board, and the Image that it runs first."""

    board: Board
    image: Path
    task: Task
    directory: Path

    def target(self, install: str = KEXEC, reboot: str = "reboot", *options: str) -> SshTarget:
        return SshTarget(HOST, install, reboot, (*options, *self.board.ssh_options))

    def attempt(self, timeout: float = TIMEOUT) -> Attempt:
        return Attempt(image=self.image, log=self.directory / "log", timeout=timeout, label="boot")

    def log(self) -> str:
        return (self.directory / "log").read_text()

    def hook(self, installed: Path) -> str:
        path = self.directory / "hook"
        options = " ".join(self.board.ssh_options)
        path.write_text(HOOK.format(options=options, installed=installed, disk=DISK))
        path.chmod(0o755)
        return str(path)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    needs_tools("qemu-system-aarch64", "ssh", "ssh-keygen", "cpio", "dpkg-deb")
    kernel = needs_kernel("bookworm")
    package = needs_modules(kernel)
    directory = tmp_path_factory.mktemp("board")
    image = directory / "boot.Image"
    assert main(["image", str(kernel.vmlinux), "-o", str(image)]) == 0
    task = Task(
        workloads=(parse_workload("hackbench:process,sockets,g=1,l=5"),),
        runs=2,
        sites=sample_sites(kernel.vmlinux, SITES),
    )
    key = make_key(directory)
    archive = pack_board(load_order(package, DRIVERS), key.with_suffix(".pub").read_text(), directory)
    with running(image, archive, key, directory) as board:
        yield Lab(board, image, task, directory)


def lost(call: Callable[[], object]) -> str:
    with pytest.raises(GuestLostError) as caught:
        call()
    return caught.value.message


def answer(lab: Lab) -> str:
    """The boot_id of the board as it is."""
    target = lab.target()
    with Transcript(lab.directory / "now") as log:
        return target.session(log, TIMEOUT).run("cat /proc/sys/kernel/random/boot_id")[0]


def test_facts(lab: Lab) -> None:
    target = lab.target()
    assert target.facts() == {
        "target": "ssh", "host": HOST, "arch": "aarch64", "model": "linux,dummy-virt", "cpu": "411fd070 x2",
        "cpus": "2", "memory": "1024 MiB", "virtual": "other",
    }  # fmt: skip
    assert target.evidence == "smoke"
    assert target.measures(lab.task.workloads) == lab.task.workloads


def test_a_campaign_by_kexec(lab: Lab, tool: Tool) -> None:
    """Two variants on one board, as a user runs it."""
    kernel, directory = needs_kernel("bookworm"), lab.directory / "campaign"
    before = answer(lab)
    arguments = [kernel.vmlinux, "--variants", "nop-nop,boot", "--no-control", "--boots", 1]
    arguments += ["--runs", 2, "--workload", "hackbench:process,sockets,g=1,l=5", "--timeout", TIMEOUT]
    arguments += ["--install", KEXEC, f"--ssh-options={shlex.join(lab.board.ssh_options)}", "-o", directory]
    assert "smoke evidence" in tool("bench", "run", "--target", f"ssh:{HOST}", *arguments).out
    results = read_results(directory)
    assert results.campaign.machine["host"] == HOST
    valid = [boot for boot in results.boots if boot.void is None]
    assert sorted(boot.variant for boot in valid) == ["boot", "nop-nop"]
    boot_ids = {before}
    for boot in valid:
        assert boot.readback is not None
        seen = boot.readback.nop if boot.variant == "nop-nop" else boot.readback.mov
        assert seen == boot.readback.sites >= 128
        (samples,) = boot.values.values()
        assert len(samples) == 2
        assert min(samples) > 0
        log = (directory / "logs" / f"boot-{boot.number:04d}.log").read_text()
        assert "there: kexec -e" in log
        boot_ids |= set(re.findall(r'"boot_id": "([0-9a-f-]{36})"', log))
    assert len(boot_ids) >= 3
    assert answer(lab) in boot_ids


def test_the_doctor_looks_at_the_board(lab: Lab, tool: Tool) -> None:
    options = f"--ssh-options={shlex.join(lab.board.ssh_options)}"
    vmlinux = needs_kernel("bookworm").vmlinux
    said, _, status = tool("bench", "doctor", "--target", f"ssh:{HOST}", options, "--vmlinux", vmlinux, status=None)
    assert status in (0, 1)
    assert "linux,dummy-virt, aarch64, 411fd070 x2: emulated as far as it reports, smoke evidence" in said
    assert "ok    read back: " in said


@REBOOTS
def test_a_hook_installs_and_reboots(lab: Lab) -> None:
    before = answer(lab)
    target = lab.target(lab.hook(lab.image), "none")
    recorded = target.boot(lab.attempt(), lab.task)
    assert recorded.readback is not None
    assert recorded.readback.mov == SITES
    assert recorded.machine["boot_id"] == answer(lab) != before
    assert "hook: boot" in lab.log()


def test_an_image_that_kexec_refuses(lab: Lab) -> None:
    nothing = lab.directory / "empty.Image"
    nothing.write_bytes(bytes(4096))
    attempt = Attempt(image=nothing, log=lab.directory / "log", timeout=TIMEOUT, label="empty")
    target = lab.target()
    message = lost(lambda: target.boot(attempt, lab.task))
    assert "the Image could not be loaded: Cannot determine the file type" in message


def test_a_script_that_never_ends(lab: Lab) -> None:
    target = lab.target()
    with Transcript(lab.directory / "log") as log:
        message = lost(lambda: target.session(log, 20).run("echo begun; sleep 1000"))
    assert "the script did not end within " in message
    assert "the board is alive, still boot" in message


@REBOOTS
def test_a_crash_in_the_script(lab: Lab) -> None:
    """The board starts another kernel under the script, as a watchdog would."""
    before = answer(lab)
    load = f"cat >/tmp/mine && kexec -l /tmp/mine --reuse-cmdline --no-checks --initrd={DISK}"
    options = ("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=60")
    target = lab.target(KEXEC, "reboot", *options)
    with Transcript(lab.directory / "log") as log:
        assert Remote(HOST, lab.board.ssh_options).send(lab.image, load, TIMEOUT).status == 0
        message = lost(lambda: target.session(log, TIMEOUT).run("kexec -e"))
    assert f"the board crashed and rebooted: boot {before} became {answer(lab)}" in message


def test_nobody_listens(lab: Lab) -> None:
    target = SshTarget(HOST, ssh_options=login(lab.directory / "key", free_port()))
    message = lost(target.facts)
    assert message.startswith(f"{HOST} does not answer: ssh: connect to host 127.0.0.1 port")
    assert "Connection refused" in message
    assert f"try: ssh {HOST} true" in message
