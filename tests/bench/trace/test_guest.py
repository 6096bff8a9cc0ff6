"""What a recording's guest does before the marks."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prologue_bench.trace.guest import setup_script

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
