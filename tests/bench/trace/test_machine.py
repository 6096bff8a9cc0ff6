"""What the guest of a recording does before the marks, and the end of its machine by the monitor of QEMU."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from prologue_bench.errors import GuestLostError
from prologue_bench.trace.guest import setup_script
from prologue_bench.trace.monitor import finish
from tests.support.cores import core

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
GREETING = b'{"QMP": {"version": {}, "capabilities": []}}\r\n'


def monitor(server: socket.socket, said: list[Any]) -> None:
    """Send two clients an event in place of the greeting; do what the third one asks for, without a machine."""
    for _ in range(2):
        client, _address = server.accept()
        with client:
            client.sendall(EVENT)
            while client.recv(4096):
                pass
    client, _address = server.accept()
    with client:
        client.sendall(GREETING)
        while asked := client.recv(4096):  # a client waits for the answer before it asks again
            said.append(json.loads(asked))
            answer = {"return": {}} | {name: value for name, value in said[-1].items() if name == "id"}
            client.sendall(json.dumps(answer).encode() + b"\r\n")


def test_an_event_before_the_greeting(tmp_path: Path) -> None:
    """Seen in one of thirty boots of the demo's small kernel at a load of 8: it ended while the monitor was opened."""
    said: list[Any] = []
    (tmp_path / "dump").write_bytes(core([(0, 0, bytes(8))]))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "monitor"))
        server.listen()
        thread = threading.Thread(target=monitor, args=(server, said), daemon=True)
        thread.start()
        finish(tmp_path / "monitor", tmp_path / "dump")
        thread.join()
    assert [command["execute"] for command in said] == ["qmp_capabilities", "stop", "dump-guest-memory", "quit"]
    assert said[2]["arguments"]["protocol"] == f"file:{tmp_path}/dump"


def test_a_machine_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(GuestLostError, match=r"dump: the machine ended before its memory was dumped$"):
        finish(tmp_path / "monitor", tmp_path / "dump")
