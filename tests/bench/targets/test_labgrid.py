"""What labgrid environments are refused, and a board that is a shell of this host; QEMU is in tests/real_kernels."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from prologue_bench.errors import BenchError, GuestLostError
from prologue_bench.recorder.task import Task
from prologue_bench.targets.base import Attempt
from tests.support.needs import needs_common_tools, needs_dev_module

needs_dev_module("labgrid")
from prologue_bench.targets import labgrid  # noqa: E402 - it imports labgrid
from prologue_bench.targets.labgrid import LabgridTarget  # noqa: E402 - it imports labgrid

POWER = "ExternalPowerDriver: {cmd_on: 'true', cmd_off: 'true', cmd_cycle: 'true'}"
CONSOLE = "ExternalConsoleDriver: {cmd: cat}"
SHELL = "ShellDriver: {prompt: 'board# ', login_prompt: 'login: ', username: root}"
UBOOT = "UBootDriver: {prompt: '=> '}"
QEMU = "QEMUDriver: {qemu_bin: qemu, machine: virt, cpu: max, memory: 1G, kernel: kernel}"


def environment(directory: Path, *drivers: str, more: str = "") -> Path:
    path = directory / "environment.yaml"
    listed = "".join(f"      {driver}\n" for driver in drivers)
    path.write_text(f"targets:\n  board:\n    drivers:\n{listed}{more}")
    return path


@pytest.mark.parametrize("text", [None, "", "targets: [", "no mapping", "imports: [absent.py]"])
def test_no_environment(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "environment.yaml"
    if text is not None:
        path.write_text(text)
    why = "." if text is not None else ".*could not be found"
    with pytest.raises(BenchError, match=rf"environment\.yaml: labgrid cannot use it: {why}"):
        LabgridTarget(path).facts()


def test_no_such_target(tmp_path: Path) -> None:
    path = environment(tmp_path, POWER, CONSOLE, SHELL)
    with pytest.raises(BenchError, match=r"environment\.yaml: no target 'main'; it has board"):
        LabgridTarget(path).facts()


@pytest.mark.parametrize(
    ("drivers", "what"),
    [
        ((POWER, CONSOLE), "board: nothing runs commands: give it a ShellDriver or an SSHDriver"),
        ((POWER, CONSOLE, UBOOT), "board: nothing runs commands"),  # a boot loader's prompt is not enough
        ((CONSOLE, SHELL), "board: nothing boots it: give it one Strategy, or one driver for the power"),
        ((POWER, QEMU, SHELL), "board: nothing boots it"),  # which of the two?
        ((POWER, SHELL), "labgrid cannot use it: .*no ConsoleProtocol driver found"),
        (("NoSuchDriver: {}",), "labgrid cannot use it: unknown driver class NoSuchDriver"),
    ],
)
def test_target_that_cannot_be_used(drivers: tuple[str, ...], what: str, tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=what) as raised:
        LabgridTarget(environment(tmp_path, *drivers), "board").facts()
    assert raised.value.exit_code == 2


def test_no_kernel_to_look_at_the_board_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_common_tools("qemu-system-aarch64")
    path = environment(tmp_path, QEMU, SHELL, more="tools: {qemu: qemu-system-aarch64}\n")
    target = LabgridTarget(path, "board")
    # QEMUDriver leaves its directory behind when it cannot be activated; with tmp_path its socket's name is too long.
    with tempfile.TemporaryDirectory() as scratch:
        monkeypatch.setattr(tempfile, "tempdir", scratch)
        with (
            pytest.warns(UserWarning, match="switching off: .*no path configured for image 'kernel'"),
            pytest.raises(BenchError, match="name one that boots as images: kernel:") as raised,
        ):
            target.facts()
    assert raised.value.exit_code == 2


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LabgridTarget:
    """A shell of this host on a terminal of its own: a board whose power cannot be cut."""
    needs_common_tools("script")
    monkeypatch.setattr(labgrid, "_SCRIPT", str(tmp_path / "record.sh"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dmesg").symlink_to("/bin/true")  # the console of this host is none of our business
    # The prompt comes in two parts, so that the echo of this command is none.
    shell = f"env PATH={tmp_path / 'bin'}:/usr/bin:/bin PS1=boar''d#\\  sh -i"
    (tmp_path / "shell").write_text(f"#!/bin/sh\nexec {shell}\n")
    (tmp_path / "shell").chmod(0o755)
    console = f"ExternalConsoleDriver: {{cmd: script -q -c {tmp_path / 'shell'} /dev/null}}"
    return LabgridTarget(environment(tmp_path, POWER, console, SHELL), "board")


@pytest.mark.thorough
def test_a_script_arrives_as_it_is(local: LabgridTarget, tmp_path: Path) -> None:
    text = "# \t'\"\\%!-`$(x) é 123\n" * 100 + "printf '%s\\n' \"one  two\" 3\nexit 1\n"
    lines = local.record(None, tmp_path / "log", 60, text)
    assert (tmp_path / "record.sh").read_text(encoding="utf-8") == text
    assert lines == ["one  two", "3"]
    assert "one  two" in (tmp_path / "log").read_text()


@pytest.mark.thorough
def test_a_board_that_was_not_booted(local: LabgridTarget, tmp_path: Path) -> None:
    assert local.facts()["board"] == "board"
    attempt = Attempt(tmp_path / "Image", tmp_path / "log", 60, "boot")
    with pytest.raises(
        GuestLostError, match=r"still the previous boot \(boot_id .*\): its power was not cut"
    ) as raised:
        local.boot(attempt, Task(workloads=(), runs=1))
    assert raised.value.exit_code == 4
    assert str(attempt.log) in raised.value.message
    assert "board#" in raised.value.message
