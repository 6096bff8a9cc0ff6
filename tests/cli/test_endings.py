"""How a run ends: interrupted at any instant, hung up, with closed or full streams: one line, and the right code."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.mini_kernel.build import Spec
from tests.mini_module.build import ModuleSpec
from tests.support.cases import one_quick
from tests.support.processes import HEEDING, until_gone
from tests.support.tool import Tool

Mini = Callable[[Spec | ModuleSpec], Path]
PROGRAM = (sys.executable, "-m", "prologue")
INTERRUPTED = (130, "prologue: interrupted\n")


def shell(command: str, *arguments: object, unbuffered: str = "") -> tuple[int, str]:
    """Run a line of shell, in which ``prologue`` is ours; returns the exit code and standard error."""
    line = f'prologue() {{ {shlex.join(PROGRAM)} "$@"; }}; {command}'
    words = ["bash", "-c", line, "bash", *map(str, arguments)]
    # A limit of files' sizes would cut Python's compiled modules, which it then fails to read for ever.
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, env=environment
    )
    return done.returncode, done.stderr


def python(program: str, *arguments: object) -> tuple[int, str]:
    """Run a program that begins like the installed command; returns the exit code and standard error."""
    words = [*HEEDING, sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("unbuffered", one_quick("", "1"))
@pytest.mark.parametrize("command", one_quick("--help", "patch --help", "--version", "--print-completion bash"))
@pytest.mark.parametrize(
    ("where", "reason"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_help_that_cannot_be_printed(command: str, where: str, reason: str, unbuffered: str) -> None:
    assert shell(f"prologue {command} {where}", unbuffered=unbuffered) == (
        2, f"prologue: input or output: {reason}\n",
    )  # fmt: skip


@pytest.mark.thorough
def test_closed_streams(mini: Mini) -> None:
    vmlinux = mini(Spec())
    assert shell('prologue scan "$1" >&-', vmlinux) == (2, "prologue: input or output: Bad file descriptor\n")
    assert shell('prologue patch "$1" --in-place --quiet <&- >&- 2>&-', vmlinux) == (0, "")
    assert main(["verify", str(vmlinux), "--require", "processed"]) == 0
    assert shell("prologue scan absent 2>&-") == (2, "")


@pytest.mark.thorough
@pytest.mark.parametrize("unbuffered", one_quick("", "1"))
def test_a_file_size_limit(mini: Mini, tmp_path: Path, unbuffered: str) -> None:
    """Nothing is left behind, and a report is whole or an error (Python itself drops the rest if it is unbuffered)."""
    vmlinux = mini(Spec())
    before = sorted(tmp_path.iterdir())
    for command in ('patch "$1" -o out', 'image "$1" -o out', 'variant "$1" --kind build -o out'):
        code, said = shell(f'cd "$2"; ulimit -f 1; prologue {command}', vmlinux, tmp_path, unbuffered=unbuffered)
        assert (code, said.count("\n")) == (2, 1)
        assert said.endswith("; nothing was left behind\n")
        assert "File too large" in said or "File size limit exceeded" in said
    assert sorted(tmp_path.iterdir()) == before
    code, said = shell('cd "$1"; ulimit -f 1; prologue rules --json >report', tmp_path, unbuffered=unbuffered)
    assert (code, said) == (2, "prologue: input or output: File too large\n")


def test_debug_keeps_the_exit_code(tool: Tool) -> None:
    said = tool("--debug", "scan", "absent", status=2).err
    assert said.startswith("Traceback")
    assert "\nprologue: absent: cannot be opened: No such file or directory\n---- paste this into a report" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_anything_is_loaded(number: signal.Signals) -> None:
    program = """
        import os, sys
        import prologue.__main__ as start
        really = start.interrupt_on_signals
        def at_once():
            really()
            os.kill(os.getpid(), int(sys.argv[1]))
        start.interrupt_on_signals = at_once
        start.run()
    """
    assert python(program, int(number)) == INTERRUPTED


@pytest.mark.thorough
@pytest.mark.parametrize(
    "loading", ["argparse", "datetime", "numpy", "numpy.linalg", "prologue.rules.pl303_pointer_into_second_slot"]
)
def test_a_signal_while_something_loads(mini: Mini, loading: str) -> None:
    """The import goes on: C code that is interrupted in one may print that, and raise something else."""
    program = """
        import os, signal, sys
        import prologue.__main__ as start
        class Interrupting:
            def find_spec(self, name, path=None, target=None):
                if name == loading:
                    try:
                        os.kill(os.getpid(), signal.SIGINT)
                    except KeyboardInterrupt:
                        raise ImportError("as numpy does")
        loading = sys.argv[1]
        sys.meta_path.insert(0, Interrupting())
        sys.argv = ["prologue", "verify", sys.argv[2]]
        start.run()
    """
    assert python(program, loading, mini(Spec())) == INTERRUPTED


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_while_the_first_is_reported(number: signal.Signals) -> None:
    """A terminal that hangs up tells the leader of a session twice; Python's own code for that was 120."""
    program = """
        import builtins, os, sys
        import prologue.__main__ as start
        import prologue.cli.main as command
        really, number = print, int(sys.argv[1])
        def twice(*arguments, **options):
            really(*arguments, **options)
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)
        builtins.print = twice
        command.import_module = lambda name: os.kill(os.getpid(), number)
        sys.argv = ["prologue", "rules"]
        start.run()
    """
    assert python(program, int(number)) == INTERRUPTED


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_when_a_temporary_file_is_just_there(mini: Mini, number: signal.Signals) -> None:
    program = """
        import os, sys, tempfile
        from prologue.__main__ import run
        really, number = tempfile.mkstemp, int(sys.argv[1])
        def at_once(*arguments, **options):
            made = really(*arguments, **options)
            os.kill(os.getpid(), number)
            return made
        tempfile.mkstemp = at_once
        sys.argv = ["prologue", "patch", sys.argv[2], "-o", sys.argv[3]]
        run()
    """
    vmlinux = mini(Spec())
    before = sorted(vmlinux.parent.iterdir())
    assert python(program, int(number), vmlinux, vmlinux.with_name("out")) == INTERRUPTED
    assert sorted(vmlinux.parent.iterdir()) == before


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_when_the_copy_has_just_begun(mini: Mini, tmp_path: Path, number: signal.Signals) -> None:
    """A cp that nobody stops makes the file again when it has been removed."""
    programs, pid = tmp_path / "programs", tmp_path / "pid"
    programs.mkdir()
    (programs / "cp").write_text(f'#!/bin/sh\necho $$ >{pid}\nsleep 0.5\nexec /bin/cp "$@"\n')
    (programs / "cp").chmod(0o755)
    program = """
        import os, subprocess, sys
        from prologue.__main__ import run
        number, pid = int(sys.argv[1]), sys.argv[4]
        class AtOnce(subprocess.Popen):
            def __init__(self, *arguments, **options):
                super().__init__(*arguments, **options)
                while not os.path.exists(pid) or not open(pid).read():
                    pass
                os.kill(os.getpid(), number)
        subprocess.Popen = AtOnce
        os.environ["PATH"] = sys.argv[5] + ":" + os.environ["PATH"]
        sys.argv = ["prologue", "patch", sys.argv[2], "-o", sys.argv[3]]
        run()
    """
    vmlinux = mini(Spec())
    before = sorted(vmlinux.parent.iterdir())
    assert python(program, int(number), vmlinux, vmlinux.with_name("out"), pid, programs) == INTERRUPTED
    assert until_gone(int(pid.read_text()))
    pid.unlink()
    assert sorted(vmlinux.parent.iterdir()) == before


@pytest.mark.parametrize("number", one_quick(signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
@pytest.mark.parametrize("ignored", one_quick(False, True))
def test_a_signal_when_all_is_done(number: signal.Signals, ignored: bool) -> None:
    """Until signals are ignored the run is interrupted, and after that it ends as it would."""
    program = """
        import os, sys
        import prologue.__main__ as start
        really, number, ignored = start.ignore_signals, int(sys.argv[1]), sys.argv[2] == "True"
        def late():
            start.ignore_signals = really
            if ignored:
                really()
            os.kill(os.getpid(), number)
            really()
        start.ignore_signals = late
        sys.argv = ["prologue", *sys.argv[3:]]
        start.run()
    """
    expected = (0, "") if ignored else INTERRUPTED
    assert python(program, int(number), ignored, "rules") == expected
    assert python(program, int(number), ignored, "--version") == expected


@pytest.mark.thorough
def test_a_reader_that_ends(mini: Mini) -> None:
    line = 'prologue scan "$1" "$1" | true; echo ${PIPESTATUS[0]} >&2'
    assert shell(line, mini(Spec())) == (0, "141\n")


@pytest.mark.thorough
def test_many_files_and_ctrl_c(mini: Mini, tmp_path: Path) -> None:
    """In a terminal it reaches the workers, too: one line, and no process stays."""
    modules = tmp_path / "modules"
    modules.mkdir()
    content = mini(ModuleSpec()).read_bytes()
    for number in range(400):
        (modules / f"m{number}.ko").write_bytes(content)
    command = [*HEEDING, *PROGRAM, "verify", str(modules), "--jobs", "2"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    workers = _children(process, 2)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=600)
    assert (process.returncode, said) == INTERRUPTED
    assert all(until_gone(worker) for worker in workers)


@pytest.mark.thorough
def test_many_files_and_a_worker_that_is_killed(mini: Mini, tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    modules.mkdir()
    content = mini(ModuleSpec()).read_bytes()
    for number in range(400):
        (modules / f"m{number}.ko").write_bytes(content)
    process = subprocess.Popen(
        [*PROGRAM, "verify", str(modules), "--jobs", "2"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.kill(_children(process, 2)[0], signal.SIGKILL)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 2
    assert said.startswith("prologue: one of the 2 processes was killed")
    assert said.count("\n") == 1


def _children(process: subprocess.Popen[str], count: int) -> list[int]:
    children: list[int] = []
    while len(children) < count:
        assert process.poll() is None
        children = list(map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()))
        time.sleep(0.01)
    return children
