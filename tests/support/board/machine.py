"""Runs the board: QEMU with a disk that holds the initramfs, and ssh on a free port of 127.0.0.1."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prologue_bench.host.child import die_with_parent

DISK: Final = "/dev/vda"  # what is on it is the initramfs, for kexec to read again
DRIVERS: Final = ("virtio_pci", "virtio_net", "virtio_blk")
_SECTOR: Final = 512
_LISTENING: Final = "Not backgrounding"  # says dropbear
_PATIENCE: Final = 120  # seconds for the first boot


@dataclass(frozen=True, slots=True)
class Board:
    """A running board and how to log in."""

    port: int
    ssh_options: tuple[str, ...]
    console: Path


def make_key(directory: Path) -> Path:
    """An ssh key without a passphrase; the public half lies beside it."""
    path = directory / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True, stdin=subprocess.DEVNULL)
    return path


def free_port() -> int:
    """Of the ports that the kernel gives to no process by itself, so that it is still free when it is used."""
    while True:
        port = random.randrange(10_000, 30_000)  # noqa: S311 - not a secret
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def login(key: Path, port: int) -> tuple[str, ...]:
    """Options of ssh; the board makes a new host key at every boot, so no key of it is kept."""
    # QEMU takes connections before the guest does: better asked often than waited for.
    settings = (
        "ConnectTimeout=5",
        "IdentitiesOnly=yes",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "LogLevel=ERROR",
    )
    return ("-F", "none", "-p", str(port), "-i", str(key), *(word for text in settings for word in ("-o", text)))


@contextmanager
def running(
    image: Path,
    initramfs: bytes,
    key: Path,
    directory: Path,
    *,
    append: str = "",
    qmp: Path | None = None,
) -> Iterator[Board]:
    """A board that boots that Image first and can be logged in to; it is stopped on the way out.

    ``append`` goes onto the kernel's command line; ``qmp`` is where QEMU's monitor socket is to be.
    """
    port = free_port()
    archive, disk, console = directory / "board.cpio", directory / "board.disk", directory / "board.console"
    archive.write_bytes(initramfs)
    disk.write_bytes(initramfs.ljust(-(-len(initramfs) // _SECTOR) * _SECTOR, b"\0"))
    # No ITS: its tables stay in memory behind the back of a kernel that kexec starts. PCI: a device there cannot write
    # to memory any more when the old kernel has let it go.
    command = [
        "qemu-system-aarch64", "-M", "virt,gic-version=3,its=off", "-cpu", "cortex-a57", "-smp", "2", "-m", "1024",
        "-accel", "tcg,thread=multi", "-nodefaults", "-display", "none", "-serial", "stdio",
        "-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
        "-device", "virtio-net-pci,netdev=net,romfile=",
        "-drive", f"if=none,id=disk,format=raw,readonly=on,file={disk}", "-device", "virtio-blk-pci,drive=disk",
        "-kernel", str(image), "-initrd", str(archive), "-append", f"console=ttyAMA0 loglevel=6 panic=0 {append}",
    ]  # fmt: skip
    if qmp is not None:
        command += ["-qmp", f"unix:{qmp},server=on,wait=off"]
    with console.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one prctl
        )  # fmt: skip
        try:
            _wait(process, console)
            yield Board(port, login(key, port), console)
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], console: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while _LISTENING not in (said := console.read_text(errors="replace")):
        assert process.poll() is None and time.monotonic() < end, f"the board does not boot:\n{said}"  # noqa: PT018 - one reason
        time.sleep(0.2)
