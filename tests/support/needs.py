"""What a test needs: missing in CI it fails, elsewhere it skips and says why.

Which of these a test calls also says whether `make test` runs it: see ``sets.py``.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

import pytest

from prologue.errors import InputError
from prologue_bench.errors import MissingToolError, UnreachableError
from prologue_bench.guest.packages import download
from tests.mini_kernel.build import missing_tools
from tests.support.debian.kbuild import BuiltKernel, Recipe, build_kernel
from tests.support.debian.kernels import DebianKernel, fetch_kernel, fetch_modules

DEMO_SUITE: Final = "bookworm"  # bench/demo.py's
held_to_demo: list[str] = []  # the test of `make test` that runs


def missing(what: str) -> NoReturn:
    """Fail or skip the calling test, or file of tests."""
    if os.environ.get("CI"):
        pytest.fail(f"needs {what}")
    pytest.skip(f"needs {what}", allow_module_level=True)


@contextmanager
def or_missing() -> Iterator[None]:
    """Inside, what this machine lacks or cannot reach is missing."""
    try:
        yield
    except (MissingToolError, UnreachableError) as error:
        missing(str(error))


def needs_module(name: str) -> None:
    """A library of an extra that the extra `test` has."""
    if find_spec(name) is None:
        missing(f"Python's {name}")


def needs_wheel(name: str) -> None:
    """A library of the extra `test` that has no wheel for arm64: there, nobody is asked to build it, also not in CI."""
    if find_spec(name) is None and platform.machine() == "aarch64":
        pytest.skip(f"{name} is not installed, and has no wheel for {platform.machine()}", allow_module_level=True)
    needs_module(name)


def needs_dev_module(name: str) -> None:
    """A library that only the extra `dev` has; outside of a function, all tests of the file need it."""
    _beyond_demo(f"Python's {name}")
    needs_module(name)


def needs_common_tools(*names: str) -> None:
    """Programs that ``.ci/setup test`` installs, or any system has."""
    absent = [name for name in names if shutil.which(name) is None]
    if absent:
        missing(", ".join(absent))


def needs_tools(*names: str) -> None:
    """Programs that only ``.ci/setup kernels`` installs."""
    _beyond_demo(", ".join(names))
    needs_common_tools(*names)


def needs_opencsd() -> None:
    """OpenCSD's library."""
    from prologue.trace.coresight.library import require_library  # here: tests/test_companions.py runs without trace

    _beyond_demo("OpenCSD")
    try:
        require_library()
    except InputError as error:
        missing(str(error))


def needs_mini_kernel_tools() -> None:
    _beyond_demo("the compilers of the mini kernels")
    if missing_tools():
        missing(", ".join(missing_tools()))


def needs_kernel(suite: str, flavour: str = "cloud-arm64") -> DebianKernel:
    if (suite, flavour) != (DEMO_SUITE, "cloud-arm64"):
        _beyond_demo(f"the {flavour} kernel of {suite}")
    return _fetched_kernel(suite, flavour)


def needs_modules(kernel: DebianKernel) -> Path:
    if kernel.suite != DEMO_SUITE:
        _beyond_demo(f"modules of {kernel.suite}")
    return _fetched_modules(kernel)


def needs_built_kernel(recipe: Recipe) -> BuiltKernel:
    _beyond_demo("a kernel that is built from source")
    return _built_kernel(recipe)


def _beyond_demo(what: str) -> None:
    """Fail a test that `make test` runs, also where it would pass because the machine has more than that installs."""
    if held_to_demo:
        pytest.fail(
            f"needs {what}, which `make test` does not install: mark {held_to_demo[-1]} `beyond`"
            " (CONTRIBUTING.md, 'Which command runs a test')"
        )


def needs_packages(suite: str, *names: str) -> tuple[Path, ...]:
    """Packages of Debian's archive, which are there, or can be fetched."""
    with or_missing():
        return download(suite, names)


@cache  # apt takes seconds to say what its lists have
def _fetched_kernel(suite: str, flavour: str) -> DebianKernel:
    with or_missing():
        return fetch_kernel(suite, flavour)


@cache
def _fetched_modules(kernel: DebianKernel) -> Path:
    with or_missing():
        return fetch_modules(kernel)


@cache
def _built_kernel(recipe: Recipe) -> BuiltKernel:
    with or_missing():
        return build_kernel(recipe)
