"""Runs a farm on 127.0.0.1: labgrid's own coordinator, an exporter for each board, and a place for each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prologue_bench.guest.initramfs import build_initramfs, pack
from prologue_bench.host.child import die_with_parent
from tests.support.board.machine import free_port

TAG: Final = "board=virt"
_LABGRID: Final = (sys.executable, "-m")
_EXPORTER: Final = """
{name}:
  NetworkSerialPort: {{host: 127.0.0.1, port: {serial}, protocol: raw}}
  NetworkPowerPort: {{model: rest, host: 'http://127.0.0.1:{power}', index: 0}}
  TFTPProvider: {{internal: {images}, external: /}}
"""
_ENVIRONMENT: Final = """
options:
  coordinator_address: {address}
targets:
  main:
    resources:
      RemotePlace: {{name: !template $LG_PLACE}}
    drivers:
      SerialDriver: {{}}
      NetworkPowerDriver: {{delay: 0.0}}
      ShellDriver: {{prompt: 'board# ', login_prompt: 'login: ', username: root, login_timeout: 200}}
      TftpStrategy: {{}}
images:
  kernel: {image}
imports:
  - strategy.py
"""
# In a farm of boards it calls stage() of a TFTPProviderDriver, which copies over ssh; this exporter is this host.
_STRATEGY: Final = '''
import shutil

import attr
from labgrid.factory import target_factory
from labgrid.strategy import ShellStrategy


@target_factory.reg_driver
@attr.s(eq=False)
class TftpStrategy(ShellStrategy):
    """Puts the Image where the board loads it from, then switches it on."""

    bindings = {**ShellStrategy.bindings, "tftp": "RemoteTFTPProvider"}

    def transition(self, status):
        if status == "shell":
            shutil.copyfile(self.target.env.config.get_image_path("kernel"), f"{self.tftp.internal}/Image")
        super().transition(status)
'''


@dataclass(frozen=True, slots=True)
class Lab:
    """A farm that runs; ``processes`` are the board and the exporter of each place."""

    directory: Path
    address: str
    processes: dict[str, tuple[subprocess.Popen[str], subprocess.Popen[str]]]

    def client(self, *words: str) -> str:
        """What ``labgrid-client`` prints."""
        command = [*_LABGRID, "labgrid.remote.client", "-x", self.address, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout

    def environment(self, image: Path) -> Path:
        """The environment file for every board; ``image`` boots them when they are first looked at."""
        (self.directory / "strategy.py").write_text(_STRATEGY)
        path = self.directory / "farm.yaml"
        path.write_text(_ENVIRONMENT.format(address=self.address, image=image))
        return path

    def kill(self, place: str) -> None:
        """The board burns, and its exporter with it; the guest dies with the board."""
        for process in self.processes[place]:
            process.kill()
            process.wait()


@contextmanager
def running_lab(directory: Path, names: Sequence[str], initramfs: bytes) -> Iterator[Lab]:
    """A coordinator, and a place with the tag ``board=virt`` for each name; all are stopped on the way out."""
    archive = directory / "board.cpio"
    archive.write_bytes(initramfs)
    with ExitStack() as stack:

        def start(log: str, ready: str, *words: object) -> tuple[subprocess.Popen[str], str]:
            return stack.enter_context(_started(directory, log, ready, *map(str, words)))

        coordinator = (*_LABGRID, "labgrid.remote.coordinator", "-l", "127.0.0.1:0")
        _, said = start("coordinator", "listening on ", *coordinator)
        lab = Lab(directory, said.split()[-1], {})
        for name in names:
            images, serial, power = directory / name, free_port(), free_port()
            images.mkdir()
            board, _ = start(
                f"{name}.board", "ready", *_LABGRID, "tests.support.farm.board", power, serial, images, archive
            )
            exported = directory / f"{name}.yaml"
            exported.write_text(_EXPORTER.format(name=name, serial=serial, power=power, images=images))
            exporter, _ = start(
                f"{name}.exporter", "Exporter ready", *_LABGRID, "labgrid.remote.exporter", "-n", f"{name}-rack",
                "--hostname", "127.0.0.1", "-c", lab.address, exported,
            )  # fmt: skip
            lab.processes[name] = (board, exporter)
            lab.client("-p", name, "create")
            lab.client("-p", name, "add-match", f"{name}-rack/{name}/*")
            lab.client("-p", name, "set-tags", TAG)
        yield lab


@contextmanager
def _started(directory: Path, log: str, ready: str, *command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A program that has said that it is ready, and the line in which it did."""
    with (directory / f"{log}.log").open("w") as errors:
        process = subprocess.Popen(
            command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
            env={"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LG_USERNAME": "tester"},
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl
        )  # fmt: skip
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if ready in line), None)
            assert line is not None, (directory / f"{log}.log").read_text()
            yield process, line
        finally:
            process.kill()
            process.wait()


# A board's usual init, as far as the bench can tell: a shell for root on the console, again if it is left.
_INIT: Final = b"""#!/bin/busybox sh
/bin/busybox mkdir -p /bin
/bin/busybox --install -s /bin
export PATH=/bin PS1='board# '
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /tmp
while :; do setsid sh -c 'exec sh -i </dev/ttyAMA0 >/dev/ttyAMA0 2>&1'; done
"""


def pack_shell() -> bytes:
    """An initramfs with busybox and hackbench, whose prompt is ``board# ``.

    The kernel unpacks archives that follow each other as one.
    """
    return build_initramfs().read_bytes() + pack({"init": _INIT})
