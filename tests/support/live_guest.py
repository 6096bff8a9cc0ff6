"""A running kernel that one logs in to, with two ways to its memory: ssh and kcore, and QEMU's monitor."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prologue.cli.main import main
from prologue.kernel.load import open_binary
from prologue_bench.guest.modules import load_order
from tests.support import qmp
from tests.support.board.machine import DRIVERS, Board, make_key, running
from tests.support.board.system import pack_board
from tests.support.needs import needs_tools

HOST: Final = "ssh:root@127.0.0.1"
TRACING: Final = "/sys/kernel/tracing"
SECURITY: Final = "/sys/kernel/security"
_MOUNTS: Final = (("tracefs", TRACING), ("debugfs", "/sys/kernel/debug"), ("securityfs", SECURITY))


@dataclass(frozen=True, slots=True)
class Guest:
    """A running kernel and its files; ``linked`` if it runs where it is linked."""

    vmlinux: Path
    modules: Path
    directory: Path
    board: Board
    monitor: Path
    linked: bool

    def shell(self, script: str) -> str:
        """Standard output of a shell script there.

        Raises:
            subprocess.CalledProcessError: it failed.

        """
        command = ["ssh", *self.board.ssh_options, "root@127.0.0.1", script]
        done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
        return done.stdout

    @property
    def ssh(self) -> str:
        """What ``prologue live`` needs to log in."""
        return f"--ssh-options={shlex.join(self.board.ssh_options)}"

    def capture(self, name: str) -> Path:
        """A capture by ssh; 6.1's kallsyms does not say where ftrace's lists are, the vmlinux does."""
        out = self.directory / name
        assert main(["live", "capture", HOST, self.ssh, "--vmlinux", str(self.vmlinux), "-o", str(out), "-q"]) == 0
        return out

    def overlay(self, source: Path | str, name: str, *options: str) -> Path:
        """An overlay of the vmlinux."""
        out = self.directory / name
        command = ["live", "overlay", str(self.vmlinux), str(source), self.ssh, "-o", str(out), "-q", *options]
        assert main(command) == 0
        return out

    def dump(self) -> Path:
        """All memory, by QEMU."""
        return qmp.dump(self.monitor, self.directory / "dump")


@contextmanager
def live_guest(
    vmlinux: Path,
    directory: Path,
    *,
    package: Path,
    modules: Sequence[str],
    files: Mapping[str, bytes] | None = None,
    append: str = "",
) -> Iterator[Guest]:
    """Boot the kernel of that vmlinux, with those modules of the directory ``package`` that are not built in."""
    needs_tools("qemu-system-aarch64", "ssh", "ssh-keygen", "cpio", "dpkg-deb")
    image, plain = directory / "Image", directory / "modules"
    assert main(["image", str(vmlinux), "-o", str(image)]) == 0
    plain.mkdir()
    unpacked = _unpacked(package, [*DRIVERS, *modules], plain)
    key, monitor = make_key(directory), directory / "qmp"
    archive = pack_board(unpacked, key.with_suffix(".pub").read_text(), directory, files or {})
    with running(image, archive, key, directory, append=append, qmp=monitor) as board:
        guest = Guest(vmlinux, plain, directory, board, monitor, linked="nokaslr" in append.split())
        for kind, place in _MOUNTS:
            guest.shell(f"mount -t {kind} {kind} {place}")
        yield guest


def _unpacked(package: Path, names: Sequence[str], directory: Path) -> list[Path]:
    """Plain, unsigned files of those modules that are not built in, and of what they need, as they must be loaded."""
    wanted = [name for name in names if any(package.rglob(f"{name}.ko*"))]
    found = []
    for path in load_order(package, wanted):
        found.append(directory / f"{path.name.partition('.ko')[0]}.ko")
        if not found[-1].exists():
            found[-1].write_bytes(bytes(open_binary(path).image.content))
    return found
