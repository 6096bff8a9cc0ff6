"""Type checkers see the library's types: "Typing :: Typed" is true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import prologue
from tests.support.needs import needs_dev_module

SCRIPT = Path(__file__).with_name("typed_script.py")


def mypy(script: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--follow-imports=silent",  # as mypy takes an installed package: only its types matter
        f"--cache-dir={directory}/cache",
        str(script),
    ]
    where = os.environ | {"MYPYPATH": str(Path(prologue.__file__).parents[1])}
    return subprocess.run(command, capture_output=True, text=True, cwd=directory, env=where, check=False)


@pytest.mark.thorough
def test_a_users_script_has_types(tmp_path: Path) -> None:
    needs_dev_module("mypy")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.read_text())
    done = mypy(script, tmp_path)
    assert done.stdout == "Success: no issues found in 1 source file\n"
    script.write_text(
        "import prologue\nprologue.opens('vmlinux')\nlength: str = prologue.make_plan('vmlinux').plan.file_size\n"
    )
    lines = [line.partition(": error: ")[2] for line in mypy(script, tmp_path).stdout.splitlines()]
    assert lines[0].startswith('Module has no attribute "opens"')
    assert lines[1].startswith('Incompatible types in assignment (expression has type "int"')
