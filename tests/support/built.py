"""Mini kernels and modules, each built once and kept between runs in the cache, under ``mini/``."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

from prologue_bench.host.cache import produce
from tests.mini_kernel.build import TOOLS, Run, Spec, build, run_command
from tests.mini_module.build import ModuleSpec, build_module

AnySpec = Spec | ModuleSpec
Mini = Callable[[AnySpec], Path]  # the fixture of tests/conftest.py: a fresh copy
ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "linker_scripts", ROOT / "tests" / "mini_kernel", ROOT / "tests" / "mini_module")
SUFFIXES = (".c", ".h", ".S", ".lds")


@cache
def built(spec: AnySpec) -> Path:
    """Return the file in the cache: to be copied, not changed."""
    commands: list[list[str]] = []
    _build(spec, Path(), commands.append)
    what = repr(commands).replace(str(ROOT), "")  # every checkout makes the same of them
    key = hashlib.sha256(f"{what} {_ingredients()}".encode()).hexdigest()[:16]

    def make(path: Path) -> None:
        _build(spec, path.parent).rename(path)

    return produce(f"mini/{key}", make)


def _build(spec: AnySpec, directory: Path, run: Run = run_command) -> Path:
    return build(spec, directory, run) if isinstance(spec, Spec) else build_module(spec, directory, run)


@cache
def _ingredients() -> str:
    """What commands do not say: the sources' bytes, and which programs these are."""
    sources = (path for directory in SOURCES for path in sorted(directory.iterdir()) if path.suffix in SUFFIXES)
    hashes = [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in sources]
    versions = [subprocess.run([tool, "--version"], capture_output=True, check=True).stdout for tool in TOOLS]
    return f"{hashes} {versions}"
