"""Which tests `make test` runs, and which only `make test-kernels`.

`make test` is for people who want to know whether the tool works on their machine: its tests need what ``.ci/setup
test`` installs, and the kernel of `make demo`, and five minutes. A test that needs more has the marker ``beyond``,
which is derived: from ``kernel`` without ``demo``; from ``thorough`` in tests of the bench (simulated campaigns, other
shells) or of a whole file; and from its code and that of its fixtures, where those call one of ``BEYOND``. The others
run without the programs that only ``.ci/setup kernels`` installs: a test that uses them unseen fails on every machine.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Final

import pytest

from tests.mini_kernel.build import run_command
from tests.support import needs

BEYOND: Final = frozenset(
    {
        needs.needs_tools,
        needs.needs_dev_module,
        needs.needs_mini_kernel_tools,
        needs.needs_opencsd,
        needs.needs_built_kernel,
        run_command,  # compilers
    }
)
HIDDEN: Final = (
    "*-linux-gnu-*", "*clang*", "*lld*", "llvm-*", "*gcc*", "*g++*", "cc", "c89*", "c99*", "cpp*", "tcc", "as", "ld",
    "ld.*", "nm", "ar", "strip", "strings", "objcopy", "objdump", "readelf", "gdb*", "*pahole", "perf", "perf_*",
    "perf2bolt*", "create_llvm_prof", "trc_pkt_lister", "genhtml", "spin", "chromium*", "chromedriver", "busybox",
    "mmdebstrap", "qemu-aarch64*", "sparse*", "ssh*", "fish", "zsh*", "groff", "mandoc", "flex", "bison", "bc", "patch",
)  # fmt: skip


_BENCH: Final = Path(__file__).parent.parent / "bench"


def mark_beyond(items: list[pytest.Item]) -> None:
    """Mark those that need more than `make test` has, or more time."""
    code = _Code()
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        by_mark = ("kernel" in marks or ("thorough" in marks and _BENCH in item.path.parents)) and "demo" not in marks
        if by_mark or is_beyond_as_a_whole(item.path) or any(code.reaches_beyond(root) for root in _roots(item)):
            item.add_marker("beyond")


_WHOLE: Final = re.compile(rb"^(needs_dev_module\(|pytestmark = .*pytest\.mark\.(kernel|thorough)\b)", re.MULTILINE)


@cache
def is_beyond_as_a_whole(file: Path) -> bool:
    """Whether all tests of a file are beyond, which its text says: it need not be imported for `make test`."""
    text = file.read_bytes()
    return _WHOLE.search(text) is not None and b"demo" not in text.lower()


def _roots(item: pytest.Item) -> Iterator[object]:
    """The test, its fixtures, and functions among its parameters."""
    assert isinstance(item, pytest.Function)
    yield item.function
    for fixtures in item._fixtureinfo.name2fixturedefs.values():
        yield from (fixture.func for fixture in fixtures)
    if hasattr(item, "callspec"):
        yield from (value for value in item.callspec.params.values() if callable(value))


class _Code:
    """What functions of the tests call, as far as names in their code say so."""

    def __init__(self) -> None:
        self._seen: dict[object, bool] = {}

    def reaches_beyond(self, root: object) -> bool:
        """Whether a call of it may end in one of ``BEYOND``."""
        try:
            if root in BEYOND:
                return True
        except TypeError:  # not hashable
            return False
        root = getattr(root, "__wrapped__", root)
        root = getattr(getattr(root, "hypothesis", None), "inner_test", root)
        if not getattr(root, "__module__", None) or not str(root.__module__).startswith("tests."):
            return False
        if root not in self._seen:
            self._seen[root] = False  # while its own calls are followed
            self._seen[root] = _names_a_compiler(root) or any(map(self.reaches_beyond, _called(root)))
        return self._seen[root]


def _called(of: object) -> Iterator[object]:
    if isinstance(of, type):
        yield from (value for value in vars(of).values() if isinstance(value, FunctionType))
    elif isinstance(of, FunctionType):
        for code in _codes(of.__code__):
            named = [of.__globals__[name] for name in code.co_names if name in of.__globals__]
            named += [sys.modules[name] for name in code.co_names if name.startswith("tests.") and name in sys.modules]
            yield from named
            for module in named:
                if isinstance(module, ModuleType) and module.__name__.startswith("tests."):
                    yield from (getattr(module, name) for name in code.co_names if hasattr(module, name))


def _names_a_compiler(of: object) -> bool:
    """Whether it has the name of one among its constants, or at the beginning of a tuple of them: a command."""
    codes = _codes(of.__code__) if isinstance(of, FunctionType) else ()
    constants = (constant for code in codes for constant in code.co_consts)
    words = (constant[0] if isinstance(constant, tuple) and constant else constant for constant in constants)
    return any(isinstance(word, str) and word.startswith(("aarch64-linux-gnu-", "clang")) for word in words)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@contextmanager
def only_what_is_there_for(item: pytest.Item, programs: Path) -> Iterator[None]:
    """While the test runs, ``programs`` is its PATH, and ``needs`` holds it to that, unless it is marked ``beyond``."""
    if item.get_closest_marker("beyond") is not None:
        yield
        return
    before, os.environ["PATH"] = os.environ["PATH"], str(programs)
    needs.held_to_demo.append(item.nodeid)
    try:
        yield
    finally:
        needs.held_to_demo.pop()
        os.environ["PATH"] = before


def is_hidden(program: str) -> bool:
    """Whether only `make test-kernels` may use it."""
    return any(fnmatch(program, pattern) for pattern in HIDDEN)


def link_programs(directory: Path) -> Path:
    """Make a directory of the programs in PATH without the hidden ones."""
    directory.mkdir(exist_ok=True)
    for entry in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(entry or ".").iterdir() if Path(entry or ".").is_dir() else ():
            if not is_hidden(program.name):
                link = directory / program.name
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    return directory


DEFAULT_TIMEOUT: Final = 900  # pyproject.toml's


def longest_first(items: list[pytest.Item]) -> None:
    """Sort so: real kernels, those of them that are built from source, the rest; of each, what may take longest."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> tuple[int, float]:
    marker = item.get_closest_marker("timeout")
    timeout = marker.args[0] if marker is not None else DEFAULT_TIMEOUT
    if item.get_closest_marker("builds") is not None:  # while the others run, prebuild.py builds
        return 1, -timeout
    return (0 if item.get_closest_marker("kernel") is not None else 2), -timeout
