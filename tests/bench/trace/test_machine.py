"""What the guest of a recording does before the marks, and the end of its machine by the monitor of QEMU."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from prologue.live.memory.core import open_core
from prologue_bench.errors import GuestLostError
from prologue_bench.trace.guest import setup_script
from prologue_bench.trace.monitor import finish
from tests.support.needs import needs_tools

MODULES = ("modules/00-a.ko", "modules/01-b $(c).ko")
LOADS = [f"insmod /{name}" for name in MODULES]
INSMOD = '#!/bin/sh\necho "insmod $*"\n[ "$*" != "$FAILS" ]\n'


@pytest.mark.parametrize(
    ("script", "fails", "said"),
    [
        ("echo one; echo two", "", [*LOADS, "one", "two"]),
        ("echo one\necho two", "/modules/00-a.ko", [LOADS[0], "failed"]),
        ("echo one; echo two", "/modules/01-b $(c).ko", [*LOADS, "failed"]),
        ("# nothing", "", LOADS),
        ("", "", LOADS),
        ("echo one; false", "", [*LOADS, "one", "failed"]),
    ],
)
def test_a_failed_load_ends_the_setup(tmp_path: Path, script: str, fails: str, said: list[str]) -> None:
    (tmp_path / "insmod").write_text(INSMOD)
    (tmp_path / "insmod").chmod(0o755)
    (tmp_path / "setup").write_text(setup_script(MODULES, script))
    command = ["sh", "-c", "if ! . ./setup; then echo failed; fi"]  # as init does
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "FAILS": fails}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert (done.stdout.splitlines(), done.stderr) == (said, "")


def test_no_modules_and_no_script() -> None:
    assert subprocess.run(["sh", "-c", setup_script((), "")], check=False).returncode == 0


EVENT = b'{"timestamp": {"seconds": 1, "microseconds": 1}, "event": "STOP"}\r\n'


@contextmanager
def machine(monitor: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A machine that was not started, with little memory."""
    needs_tools("qemu-system-aarch64")
    command = ["qemu-system-aarch64", "-M", "virt", "-cpu", "cortex-a57", "-m", "1", "-S", "-display", "none"]
    with subprocess.Popen([*command, "-nodefaults", "-qmp", f"unix:{monitor},server=on,wait=on"]) as qemu:
        yield qemu


def relay(server: socket.socket, monitor: Path, early: int) -> None:
    """Send an event in place of the greeting to so many clients; give the next one the monitor."""
    for _ in range(early):
        client, _address = server.accept()
        with client:
            client.sendall(EVENT)
            while client.recv(4096):
                pass
    client, _address = server.accept()
    with client, socket.socket(socket.AF_UNIX) as real:
        while real.connect_ex(str(monitor)):
            pass
        thread = threading.Thread(target=copy, args=(client, real))
        thread.start()
        copy(real, client)
        thread.join()


def copy(source: socket.socket, target: socket.socket) -> None:
    """Copy until the source ends."""
    try:
        while data := source.recv(4096):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return  # the other side has left


@pytest.mark.qemu
def test_an_event_before_the_greeting(tmp_path: Path) -> None:
    """Seen in one of thirty boots of the demo's small kernel at a load of 8: it ended while the monitor was opened."""
    with machine(tmp_path / "real") as qemu, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "monitor"))
        server.listen()
        thread = threading.Thread(target=relay, args=(server, tmp_path / "real", 2))
        thread.start()
        try:
            finish(tmp_path / "monitor", tmp_path / "dump")
        finally:
            qemu.terminate()
        thread.join()
    assert sum(load.filesz for load in open_core(tmp_path / "dump").loads) >= 1 << 20


def test_a_machine_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(GuestLostError, match=r"dump: the machine ended before its memory was dumped$"):
        finish(tmp_path / "monitor", tmp_path / "dump")
