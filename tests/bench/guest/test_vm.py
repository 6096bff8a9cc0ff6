"""The runner on consoles that are ordinary programs, and the command line; real boots are in tests/real_kernels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue_bench.errors import MissingToolError
from prologue_bench.guest import vm
from prologue_bench.host.events import Event
from tests.support.processes import HEEDING, gone, until_gone

_HOLD = """
import sys
from pathlib import Path
from prologue_bench.guest.vm import run_console
run_console(["sh", "-c", "echo $$; exec sleep 300"], Path(sys.argv[1]), 300)
"""


def test_console_is_kept_and_returned(tmp_path: Path) -> None:
    log = tmp_path / "log"
    lines, seconds, ended = vm.run_console(["printf", r"one\r\ntwo\n\377"], log, 10)
    assert ended
    assert lines == ["one", "two", "\ufffd"]
    assert log.read_text(encoding="utf-8").splitlines() == lines
    assert 0 < seconds < 10


def test_a_hang_is_stopped_with_all_its_children(tmp_path: Path) -> None:
    lines, _, ended = vm.run_console(["sh", "-c", "sleep 300 & echo $!; wait"], tmp_path / "log", 1)
    assert not ended
    assert until_gone(int(lines[0]))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_machine_does_not_outlive_us(tmp_path: Path, how: signal.Signals) -> None:
    log = tmp_path / "log"
    ours = subprocess.Popen([*HEEDING, sys.executable, "-c", _HOLD, str(log)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 600
    while (not log.exists() or not log.read_text().endswith("\n")) and time.monotonic() < deadline:
        time.sleep(0.02)
    machine = int(log.read_text())
    assert not gone(machine)
    os.kill(ours.pid, how)
    ours.wait(600)
    assert until_gone(machine)


WAITING = """echo '@5eed {"event": "held", "state": "idle"}'; read -r answer && echo went on"""


def waited(directory: Path, look: Callable[[Event], None]) -> None:
    with vm._answers(vm.Observer(directory / "qmp", look), "5eed") as (stdin, hear):
        lines, _, ended = vm.run_console(["sh", "-c", WAITING], directory / "log", 10, stdin=stdin, hear=hear)
        assert ended
        assert lines[1:] == ["went on"]


def test_a_guest_that_waits_goes_on_after_a_look(tmp_path: Path) -> None:
    seen: list[Event] = []
    waited(tmp_path, seen.append)
    assert seen == [Event("held", {"state": "idle"})]


def test_a_look_that_fails_is_said_when_the_guest_has_ended(tmp_path: Path) -> None:
    def fail(event: Event) -> None:
        raise OSError(f"no dump of {event.data['state']}")

    with pytest.raises(OSError, match="no dump of idle"):
        waited(tmp_path, fail)


def test_no_qemu(tmp_path: Path) -> None:
    with pytest.raises(MissingToolError, match="no-such-qemu"):
        vm.run_console(["no-such-qemu"], tmp_path / "log", 1)


def test_command_line_of_job_and_machine(tmp_path: Path) -> None:
    job = vm.Job(names=("smoke", "hackbench"), parameters=(("args", "-g 1 -l 10"), ("runs", 2)), append="nokaslr")
    words = job.command_line("5eed").split()
    assert words[:2] == ["console=ttyAMA0", "loglevel=4"]
    assert "panic=-1" in words
    assert "nokaslr" in words
    assert words[-4:] == [
        "prologue.token=5eed",
        "prologue.jobs=smoke,hackbench",
        "prologue.args=-g,1,-l,10",
        "prologue.runs=2",
    ]
    machine = vm.Machine(cpu="max,pauth-impdef=on", cpus=4, memory=2048, accel="kvm", port=tmp_path / "a,b")
    command = machine.command(tmp_path / "Image", tmp_path / "cpio", "a word")
    for wanted in ("-M virt,gic-version=host", "-cpu max,pauth-impdef=on", "-smp 4", "-m 2048", "-accel kvm"):
        assert wanted in " ".join(command)
    assert {f"file,id=results,path={tmp_path}/a,,b", "-initrd"} < {*command}
    assert command[command.index("-append") + 1] == "a word"
    command = vm.Machine().command(Path("Image"), None, "console=ttyAMA0 panic=-1")
    assert command[-2:] == ["-append", "console=ttyAMA0 panic=-1"]
    assert "-initrd" not in command
