"""What a test needs: missing in CI it fails, elsewhere it skips and says why."""

from __future__ import annotations

import os
import shutil
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from prologue.errors import InputError
from prologue.trace.coresight.library import require_library
from prologue_bench.errors import MissingToolError, UnreachableError
from prologue_bench.guest.kbuild import BuiltKernel, Recipe, build_kernel
from prologue_bench.guest.kernels import DebianKernel, fetch_kernel, fetch_modules
from tests.mini_kernel.build import missing_tools


def missing(what: str) -> None:
    """Fail or skip the calling test, or file of tests."""
    if os.environ.get("CI"):
        pytest.fail(f"needs {what}")
    pytest.skip(f"needs {what}", allow_module_level=True)


def needs_module(name: str) -> None:
    if find_spec(name) is None:
        missing(f"Python's {name}")


def needs_tools(*names: str) -> None:
    absent = [name for name in names if shutil.which(name) is None]
    if absent:
        missing(", ".join(absent))


def needs_opencsd() -> None:
    """OpenCSD's library."""
    try:
        require_library()
    except InputError as error:
        missing(str(error))


def needs_mini_kernel_tools() -> None:
    if missing_tools():
        missing(", ".join(missing_tools()))


@cache  # apt takes seconds to say what its lists have
def needs_kernel(suite: str, flavour: str = "cloud-arm64") -> DebianKernel:
    try:
        return fetch_kernel(suite, flavour)
    except (MissingToolError, UnreachableError) as error:
        missing(str(error))
        raise  # not reached: missing() does not return


@cache
def needs_modules(kernel: DebianKernel) -> Path:
    try:
        return fetch_modules(kernel)
    except (MissingToolError, UnreachableError) as error:
        missing(str(error))
        raise  # not reached: missing() does not return


@cache
def needs_built_kernel(recipe: Recipe) -> BuiltKernel:
    try:
        return build_kernel(recipe)
    except (MissingToolError, UnreachableError) as error:
        missing(str(error))
        raise  # not reached: missing() does not return
