"""A guest without network whose shell is on its serial port: a program ``ssh`` that is first in PATH leads there.

What ``ssh:HOST`` reads then is /proc/kcore of that guest, by its own shell and dd.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prologue.elf.flat import write_flat
from prologue.elf.image import ElfImage
from prologue.live.memory.session import RemoteShell
from prologue_bench.guest.initramfs import build_initramfs, pack
from prologue_bench.guest.vm import Machine
from prologue_bench.host.child import die_with_parent
from tests.support import qmp
from tests.support.processes import place_python_program

HOST: Final = "ssh:guest"
_INIT: Final = b"""\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
for pair in proc:/proc sysfs:/sys devtmpfs:/dev tmpfs:/tmp debugfs:/sys/kernel/debug tracefs:/sys/kernel/tracing; do
	mount -t ${pair%%:*} ${pair%%:*} ${pair#*:}
done
echo 1 >/proc/sys/kernel/printk
stty -F /dev/ttyAMA0 raw -echo
echo 'the shell is ready' >/dev/ttyAMA0
while :; do dd bs=512 </dev/ttyAMA0 2>/dev/null | sh >/dev/ttyAMA0 2>/dev/null; done
"""
_SSH: Final = """\
import os, select, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect({place!r})
while True:
    ready, _, _ = select.select([0, line], [], [])
    if 0 in ready:
        data = os.read(0, 1024)
        if not data:
            break
        line.sendall(data)
    if line in ready:
        data = line.recv(1 << 16)
        if not data:
            break
        os.write(1, data)
"""
_PATIENCE: Final = 120  # seconds for the boot


@dataclass(frozen=True, slots=True)
class SerialGuest:
    """A running guest; ``line`` is its serial port, ``monitor`` is QEMU's."""

    directory: Path
    line: Path
    monitor: Path

    def run(self, script: str) -> str:
        """Standard output of a script there, which must not end the shell."""
        end = "==== the end"
        shell = RemoteShell("guest", "guest", (), "see to it")  # ends here: there is one line to the guest
        return shell.ask_until(f"{script}\necho '{end}'\n", f"{end}\n".encode()).decode().removesuffix(f"{end}\n")

    def dump(self) -> Path:
        """All memory, by QEMU."""
        return qmp.dump(self.monitor, self.directory / "dump")


@contextmanager
def serial_guest(
    vmlinux: Path, directory: Path, machine: Machine, modules: Sequence[Path] = (), append: str = ""
) -> Iterator[SerialGuest]:
    """Boot; the files of ``modules`` lie in the guest's root. PATH is another one until the end."""
    line, monitor, archive = directory / "line", directory / "qmp", directory / "guest.cpio"
    write_flat(ElfImage(vmlinux), image := directory / "Image")
    content = {"serial": _INIT, **{path.name: path.read_bytes() for path in modules}}
    archive.write_bytes(build_initramfs().read_bytes() + pack(content))  # the kernel unpacks one after the other
    command = machine.command(image, archive, f"console=ttyAMA0 loglevel=1 rdinit=/serial {append}")
    command[command.index("stdio")] = f"unix:{line},server=on,wait=on"
    command += ["-qmp", f"unix:{monitor},server=on,wait=off"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)  # noqa: PLW1509 - one prctl
    try:
        _wait(line, process)
        with _path_with_ssh(directory, line):
            yield SerialGuest(directory, line, monitor)
    finally:
        process.kill()
        process.wait()


def _wait(line: Path, process: subprocess.Popen[bytes]) -> None:
    """Listen until the shell says that it is there; QEMU starts when somebody listens."""
    end, said = time.monotonic() + _PATIENCE, bytearray()
    while not line.exists():
        assert process.poll() is None, "QEMU does not start"
        time.sleep(0.05)
    with socket.socket(socket.AF_UNIX) as console:
        console.connect(str(line))
        console.settimeout(_PATIENCE)
        while b"the shell is ready" not in said:
            said += (part := console.recv(1 << 16))
            assert part and time.monotonic() < end, f"the guest does not boot: {said!r}"  # noqa: PT018 - one reason


@contextmanager
def _path_with_ssh(directory: Path, line: Path) -> Iterator[None]:
    program, before = directory / "bin" / "ssh", os.environ["PATH"]
    program.parent.mkdir()
    place_python_program(program, _SSH.format(place=str(line)))
    os.environ["PATH"] = f"{program.parent}:{before}"
    try:
        yield
    finally:
        os.environ["PATH"] = before
