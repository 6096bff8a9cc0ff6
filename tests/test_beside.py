"""``.ci/beside``: mypy and the tests at the same time, as on a fresh machine; neither's failure or output is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.processes import HEEDING

BESIDE = Path(__file__).parents[1] / ".ci/beside"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("first", "second", "status"),
    [("exit 0", "exit 0", 0), ("exit 3", "exit 0", 3), ("exit 0", "exit 4", 4), ("exit 3", "exit 4", 4)],
)
def test_both_run_to_their_end(tmp_path: Path, first: str, second: str, status: int) -> None:
    """The first ends first here, and is heard last; the second waits for that, so both ran at once."""
    done = tmp_path / "done"
    os.mkfifo(done)
    commands = [f"bash -c 'echo one; echo two >&2; echo >{done}; {first}'", f"read -r <{done}; echo tests; {second}"]
    found = subprocess.run(
        [BESIDE, commands[0], "bash", "-c", commands[1]], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (status, "tests\none\ntwo\n", "")


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_both(tmp_path: Path, number: signal.Signals) -> None:
    """An interrupt comes from the terminal to all of them, SIGTERM to the first process; the second may clean up."""
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    second = f"trap 'echo cleaned up; exit 5' INT TERM; echo >{ready}; while :; do sleep 0.05; done"
    running = subprocess.Popen(
        [*HEEDING, BESIDE, "sleep 100", "bash", "-c", second],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    ready.read_text()
    try:
        if number == signal.SIGINT:
            os.killpg(running.pid, number)
        else:
            running.send_signal(number)
        said, _ = running.communicate(timeout=600)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    assert (running.returncode, said) == (5, "cleaned up\n")


def test_the_environment_is_that_of_a_fresh_machine(tmp_path: Path) -> None:
    """The home is empty and gone afterwards, and only what apt and the cache need is the user's."""
    settings = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "https_proxy": "http://[::1]:9",
    }
    personal = {"LC_ALL": "de_DE.UTF-8", "GIT_EDITOR": "false", "PAGER": "less", "PYTHONPATH": "/nonexistent"}
    show = 'ls -A "$HOME"; exec env'
    done = subprocess.run(
        [sys.executable, BESIDE, "true", "sh", "-c", show],
        env=settings | personal,
        capture_output=True,
        text=True,
        check=True,
    )
    printed = dict(line.split("=", 1) for line in done.stdout.splitlines())
    home = Path(printed.pop("HOME"))
    assert home.parent == tmp_path
    assert not home.exists()
    assert printed.pop("XDG_CACHE_HOME") == f"{tmp_path}/.cache"
    assert {name: value for name, value in printed.items() if name not in {"PWD", "_", "SHLVL", "LC_CTYPE"}} == {
        name: settings[name] for name in ("PATH", "TMPDIR", "https_proxy")
    }
