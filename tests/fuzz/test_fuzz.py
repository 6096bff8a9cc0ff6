"""Every input of the corpus, 1,000 fresh ones, and that the harness can fail."""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import harness as under_test
from tests.fuzz.harness import CORPUS, Harness, WrongEndError, smaller
from tests.support.needs import needs_mini_kernel_tools

FRESH = 1_000


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    needs_mini_kernel_tools()
    return Harness(tmp_path_factory.mktemp("fuzz"))


def test_the_corpus(harness: Harness) -> None:
    """Inputs that failed once, and some that reached something that others did not."""
    files = sorted(CORPUS.iterdir())
    assert len(files) > 10
    assert sum(path.stat().st_size for path in files) < 200_000
    for path in files:
        harness.run(path.read_bytes())


@pytest.mark.thorough
def test_fresh_inputs(harness: Harness, show: Callable[[str], None]) -> None:
    seed = 1 if os.environ.get("CI") else random.SystemRandom().getrandbits(32)
    chance = random.Random(seed)  # noqa: S311 - not a secret
    codes: Counter[int] = Counter()
    for _ in range(FRESH):
        script = chance.randbytes(2 + 6 * chance.randint(1, 4))
        try:
            codes[harness.run(script)] += 1
        except WrongEndError as failure:
            small = smaller(harness, script)
            pytest.fail(f"seed {seed}, input {small.hex()}: {' '.join(harness.command(small))}: {failure}")
    show(f"{FRESH:,} fresh inputs (seed {seed}): " + ", ".join(f"{n:,} ended with {code}" for code, n in codes.items()))
    assert codes[0] > FRESH // 20
    assert codes[1] > FRESH // 100
    assert codes[2] > FRESH // 4


@pytest.mark.thorough
def test_every_command_reads_its_healthy_file(harness: Harness) -> None:
    codes = {
        command: harness.run(bytes((number, place)))
        for number, target in enumerate(harness.targets)
        for place, command in enumerate(target.commands)
    }
    assert {command for command, code in codes.items() if code == 2} == {"patch x -o out"}  # a stock kernel, with auto
    assert 0 in codes.values()


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (lambda words: 3, "exit code 3"),
        (lambda words: 1 / 0, "ZeroDivisionError left main"),
        (lambda words: sys.stderr.write("Traceback") and 2, "exit code 2: Traceback"),
        (lambda words: 2, "not one line"),
        (lambda words: Path("left").write_text("x") and 0, "left left"),
        (lambda words: Path("vmlinux").write_text("x") and 0, "changed"),
    ],
)
def test_the_harness_can_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: Callable[[list[str]], int], reason: str
) -> None:
    needs_mini_kernel_tools()
    harness = Harness(tmp_path)
    monkeypatch.setattr(under_test, "main", behaviour)
    with pytest.raises(WrongEndError, match=reason):
        harness.run(b"\0\0")


def test_limits_and_smaller_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_mini_kernel_tools()
    harness = Harness(tmp_path)
    healthy = harness.damaged(b"\0\0")
    script = b"\0\0" + bytes((0, 1, 0, 3, 1, 0)) + bytes((0, 1, 0, 0, 9, 0)) + bytes((0, 2, 0, 3, 2, 0))
    assert harness.damaged(script) != healthy

    def fails(words: list[str]) -> int:
        return 3 if Path("x").read_bytes()[4] != healthy[4] else 0  # what the second edit does

    monkeypatch.setattr(under_test, "main", fails)
    assert smaller(harness, script) == b"\0\0" + bytes((0, 1, 0, 0, 9, 0))
    monkeypatch.undo()
    monkeypatch.setattr(under_test, "SECONDS", 0.0)
    with pytest.raises(WrongEndError, match=r"took 0\.\d s"):
        harness.run(b"\0\0")
    monkeypatch.setattr(under_test, "SECONDS", 10.0)
    monkeypatch.setattr(under_test, "MEMORY", -1)
    with pytest.raises(WrongEndError, match=r"took .* MiB"):
        harness.run(b"\0\0")
