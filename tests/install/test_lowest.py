"""Lowest versions of all that prologue names, all at once: the tool's tests pass with them."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

import prologue
from prologue_bench.host import cache
from tests.support.needs import missing

pytestmark = [pytest.mark.thorough, pytest.mark.extended, pytest.mark.timeout(3600)]  # five minutes

TREE = Path(prologue.__file__).parent.parent
EXTRAS = ("live", "reports", "bench", "all", "test")
# What reads, writes and draws by these libraries.
TESTED = (
    "tests/elf", "tests/patching", "tests/probe", "tests/live/overlay", "tests/report", "tests/trace/exports",
    "tests/cli/test_completion.py", "tests/bench/report", "tests/bench/analysis",
)  # fmt: skip


def lowest() -> list[str]:
    project = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in EXTRAS for line in project["optional-dependencies"][extra])]
    return sorted({re.sub(r">=([\d.]+)[^;]*", r"==\1", line) for line in lines if not line.startswith("prologue[")})


def make(versions: list[str], out: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-compile", f"--target={out}"]
    subprocess.run([*pip, *versions], check=True)


def test_every_lower_bound() -> None:
    if sys.version_info[:2] != (3, 11):  # later ones have no wheels of the lowest numpy, scipy and matplotlib
        missing("Python 3.11")
    key = hashlib.sha256(repr(lowest()).encode()).hexdigest()[:16]
    libraries = cache.produce(f"lowest/{key}", partial(make, lowest()))
    path = os.pathsep.join(map(str, (libraries, TREE, TREE / "bench")))
    marks = "not kernel and not qemu and not builds and not extended and not thorough"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "-m", marks, *TESTED]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=TREE, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert re.search(r"\d{3} passed", done.stdout)
