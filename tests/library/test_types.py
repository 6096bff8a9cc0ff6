"""Type checkers see the library's types: "Typing :: Typed" is true. That right scripts pass is in test_page.py."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import prologue
from tests.support.needs import needs_dev_module

# Each line is wrong, and what mypy says of it.
SCRIPT = {
    "prologue.opens('vmlinux')": 'Module has no attribute "opens"',
    "a: str = prologue.open('vmlinux')": "Kernel | Module",
    "b: str = prologue.make_plan('vmlinux').plan.file_size": "int",
    "c: str = prologue.open_system('vmlinux', 'memory').words([1])[0]": "unsignedinteger[_32Bit]",
    "d: str = prologue.open_trace('t', prologue.open_system('v', 'm')).check().stale": "tuple[StaleText, ...]",
    "e: str = prologue.open_system('vmlinux', 'memory').audit().findings": "tuple[Finding, ...]",
    "f: int = next(iter(prologue.judge_probes('vmlinux', 'vfs_read'))).answer": "'depends'",
}


@pytest.mark.thorough
def test_a_users_script_has_types(tmp_path: Path) -> None:
    needs_dev_module("mypy")
    script = tmp_path / "script.py"
    script.write_text("\n".join(["import prologue", *SCRIPT]))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path}/cache"]
    command += ["--follow-imports=silent", str(script)]  # as mypy takes an installed package: only its types matter
    where = os.environ | {"MYPYPATH": str(Path(prologue.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=where, check=False)
    said = dict(re.findall(r":(\d+): error: (.*)", done.stdout))
    for number, (line, part) in enumerate(SCRIPT.items(), 2):
        assert part in said[str(number)], line
