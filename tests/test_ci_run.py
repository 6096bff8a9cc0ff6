"""``.ci/run`` and ``.ci/beside``: every part of the tests runs, and neither's failure, output or sum is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.processes import HEEDING

RUN = Path(__file__).parents[1] / ".ci/run"
TEST = "== 1 failed, 40 passed, 1 warning in 61.50s (0:01:01) =="
KERNELS = "== 3 passed, 2 skipped, 1 warning, 1 error in 8.25s =="


@pytest.mark.parametrize(
    ("of_test", "of_kernels", "status"),
    [(0, 0, 0), (2, 0, 2), (0, 2, 2), (2, 3, 2)],
    ids=["both pass", "the first fails", "the second fails", "both fail"],
)
def test_both_run_and_the_last_line_has_the_sums(tmp_path: Path, of_test: int, of_kernels: int, status: int) -> None:
    make = tmp_path / "make"
    make.write_text(f"""#!/bin/sh
for last; do :; done
case $last in
test) echo '{TEST}'; echo "make: of $last" >&2; exit {of_test};;
test-kernels) echo '{KERNELS}'; echo Success: no issues found; exit {of_kernels};;
esac
exit 99
""")
    make.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([RUN], capture_output=True, text=True, check=False, env=os.environ | {"PATH": path})
    assert done.stdout.splitlines() == [
        TEST,
        "make: of test",
        KERNELS,
        "Success: no issues found",
        "=========== 1 failed, 43 passed, 2 skipped, 2 warnings, 1 error in 69.75s ===========",
    ]
    assert done.returncode == status


def test_no_line_is_made_up_where_no_test_ran(tmp_path: Path) -> None:
    (tmp_path / "make").write_text("#!/bin/sh\necho setup: no network\nexit 2\n")
    (tmp_path / "make").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run([RUN], capture_output=True, text=True, check=False, env=os.environ | {"PATH": path})
    assert (done.returncode, done.stdout) == (2, "setup: no network\n" * 2)


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
