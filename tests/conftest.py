"""Fixtures that several tests share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.mini_kernel.build import Spec
from tests.real_kernels import prebuild
from tests.support.built import AnySpec, Mini, built
from tests.support.cases import in_words
from tests.support.documents import checked_documents
from tests.support.needs import needs_mini_kernel_tools
from tests.support.sets import is_beyond_as_a_whole, link_programs, longest_first, mark_beyond, only_what_is_there_for
from tests.support.tool import Tool

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

# What chance finds is found while somebody works, and then gets an example; a gate must not depend on chance. Neither
# has a deadline for each example: how long one takes says more about the machine than about the code.
settings.register_profile("work", deadline=None)
settings.register_profile("gate", derandomize=True, deadline=None)
settings.load_profile("gate" if os.environ.get("CI") else "work")

SHOWN = "shown"
PROGRAMS = pytest.StashKey[Path]()


@pytest.fixture(autouse=True, scope="session")
def described() -> Iterator[None]:
    """Documents that tests make have the fields of their schemas."""
    with checked_documents():
        yield


def pytest_configure(config: pytest.Config) -> None:
    """Make the PATH of tests that `make test` runs; processes that share them have one."""
    if hasattr(config, "workerinput"):
        config.stash[PROGRAMS] = Path(config.workerinput["programs"])
        return
    programs = tempfile.TemporaryDirectory(prefix="programs-")
    config.add_cleanup(programs.cleanup)
    config.stash[PROGRAMS] = link_programs(Path(programs.name))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Give it to a process that shares the tests."""
    node.workerinput["programs"] = str(node.config.stash[PROGRAMS])


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import for `make test` what it does not run, and may lack a library for."""
    without = "not beyond" in config.option.markexpr and collection_path.suffix == ".py"
    return True if without and is_beyond_as_a_whole(collection_path) else None


@pytest.hookimpl(tryfirst=True)  # before those that `-m` leaves out are dropped
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say which command runs them, and sort them where several processes share them."""
    mark_beyond(items)
    if hasattr(config, "workerinput"):
        longest_first(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin with the kernels that will be needed."""
    first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    builds = any(item.get_closest_marker("builds") for item in session.items)
    if first and builds and not session.config.option.collectonly:
        extended = any(item.get_closest_marker("extended") for item in session.items)
        builder = prebuild.start(extended=extended)
        session.config.add_cleanup(lambda: prebuild.stop(builder))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Give each case a name in words."""
    return in_words(val, argname)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Hold a test of `make test` to what that installs."""
    with only_what_is_there_for(item, item.config.stash[PROGRAMS]):
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests have measured."""
    for report in (report for outcome in ("passed", "failed") for report in terminalreporter.getreports(outcome)):
        for text in (text for name, text in report.user_properties if name == SHOWN and report.when == "call"):
            terminalreporter.section(report.nodeid)
            terminalreporter.write_line(text)


@pytest.fixture
def show(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Have a text printed after all tests: the processes that run them have no terminal."""
    return lambda text: record_property(SHOWN, text)


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    """The tool's command line, and what each command prints."""
    return Tool(capsys)


@pytest.fixture
def mini(tmp_path: Path) -> Mini:
    """A fresh copy of the mini kernel or module of a spec, to do with as the test likes."""
    needs_mini_kernel_tools()

    def copy(spec: AnySpec) -> Path:
        return Path(shutil.copy(built(spec), tmp_path / ("vmlinux" if isinstance(spec, Spec) else "mini.ko")))

    return copy
