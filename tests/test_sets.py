"""`make test` runs on a machine that has the demo's packages: which tests those are, and what holds them to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.mini_kernel.build import run_command
from tests.support import needs
from tests.support.needs import held_to_demo
from tests.support.sets import BEYOND, is_hidden

TREE = Path(__file__).parents[1]
NEEDS: Final[list[Any]] = sorted(BEYOND - {run_command}, key=str)
SETUP = TREE / ".ci" / "setup"
EXAMPLE = """
import subprocess
import pytest
from hypothesis import given
from hypothesis.strategies import none
from tests.support.needs import needs_common_tools, needs_tools

HERE = __name__

def helper():
    return [needs_tools("sh") for _ in range(1)]

@pytest.fixture
def compiler():
    helper()

@pytest.fixture
def other():
    needs_common_tools("sh")

def test_by_a_fixture(compiler): pass
def test_by_a_helper(): helper()
@pytest.mark.parametrize("make", [helper], ids=["helper"])
def test_by_a_parameter(make): make()
@pytest.mark.kernel
def test_of_a_kernel(): pass
@pytest.mark.kernel
@pytest.mark.demo
def test_of_the_demos_kernel(): pass
def test_of_neither(other): pass
@given(none())
def test_by_a_helper_and_hypothesis(_): helper()
def test_unseen_need(): globals()["helper"]()
def test_unseen_program(): subprocess.run(["gcc", "--version"], check=True)
"""


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A file of tests; its name begins as those of the tests do."""
    package = tmp_path / "tests" / "examples_of_sets"
    package.mkdir(parents=True)
    (package / "test_made.py").write_text(EXAMPLE.replace("HERE = __name__", '__name__ = "tests.test_made"'))
    return package / "test_made.py"


def run_pytest(example: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    environment = os.environ | {"CI": "true", "PYTHONPATH": str(TREE)}
    done = subprocess.run(
        [*command, f"--rootdir={TREE}", f"-c{TREE}/pyproject.toml", *arguments, str(example)],
        capture_output=True, text=True, check=False, env=environment, cwd=TREE,
    )  # fmt: skip
    return done.stdout


@pytest.mark.thorough
def test_what_needs_more_is_beyond(example: Path) -> None:
    listed = run_pytest(example, "--collect-only", "-m", "beyond")
    assert re.findall(r"::(\w+)", listed) == [
        "test_by_a_fixture",
        "test_by_a_helper",
        "test_by_a_parameter",
        "test_of_a_kernel",
        "test_by_a_helper_and_hypothesis",
    ]


@pytest.mark.thorough
def test_a_test_of_make_test_that_uses_more_fails(example: Path) -> None:
    printed = run_pytest(example, "-m", "not beyond")
    assert "2 failed, 2 passed, 5 deselected" in printed
    assert re.search(
        r"FAILED .*::test_unseen_need - Failed: needs sh, which `make test` does not install: mark ", printed
    )
    assert re.search(r"FAILED .*::test_unseen_program - FileNotFoundError: .* 'gcc'", printed)


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: need.__name__)
def test_each_need_refuses_a_test_of_make_test(need: Callable[..., object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "held_to_demo", ["tests/test_x.py::test_y"])
    arguments: dict[object, list[Any]] = {
        needs.needs_tools: ["clang"], needs.needs_dev_module: ["mypy"], needs.needs_built_kernel: [None],
    }  # fmt: skip
    with pytest.raises(
        pytest.fail.Exception, match=r"which `make test` does not install: mark tests/test_x.py::test_y"
    ):
        need(*arguments.get(need, []))


def test_another_kernel_than_the_demos_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "held_to_demo", ["x"])
    for suite, flavour in (("trixie", "cloud-arm64"), (needs.DEMO_SUITE, "arm64")):
        with pytest.raises(pytest.fail.Exception, match=f"needs the {flavour} kernel of {suite}"):
            needs.needs_kernel(suite, flavour)


def commands_of(*arrays: str) -> set[str]:
    """Names before ``=`` in arrays of ``.ci/setup``."""
    text = SETUP.read_text()
    bodies = re.findall(rf"^\s*(?:{'|'.join(arrays)})\+?=\((.*?)\)$", text, re.MULTILINE | re.DOTALL)
    assert len(bodies) >= len(arrays)
    return {word.partition("=")[0] for body in bodies for word in re.findall(r"[\w./+-]+=[\w.+-]+", body)}


def test_what_only_the_other_tests_install_is_hidden() -> None:
    """``.ci/setup`` says what each set of tests has; what both sets have, or any Debian has, is not hidden."""
    common = commands_of("small_needs", "demo_needs", "test_needs")
    assert {command for command in common if is_hidden(command)} == set()
    more = commands_of("kernels_needs", "bench_needs") - common
    assert {command for command in more if "/" not in command and not is_hidden(command)} == {"make", "openssl", "perl"}


def test_programs_are_hidden_from_this_test() -> None:
    assert held_to_demo
    assert held_to_demo[-1].endswith("::test_programs_are_hidden_from_this_test")
    assert [program for program in Path(os.environ["PATH"]).iterdir() if is_hidden(program.name)] == []
    assert Path(os.environ["PATH"], "sh").exists()
