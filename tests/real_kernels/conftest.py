"""What the tests of Debian's kernels share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from prologue.cli.main import main
from tests.support.debian.kernels import DebianKernel
from tests.support.needs import needs_kernel

DEMO_FIRST = (pytest.param("bookworm", marks=pytest.mark.demo), "trixie")


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel, its processed copy, and a directory for more."""

    kernel: DebianKernel
    processed: Path
    plan: Path
    directory: Path

    @property
    def vmlinux(self) -> Path:
        return self.kernel.vmlinux


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    kernel = needs_kernel(request.param)
    directory = tmp_path_factory.mktemp(str(request.param))
    made = Case(kernel, directory / "processed", directory / "plan.json", directory)
    # -o re-reads the result with LIEF before it is called good.
    command = ["patch", str(kernel.vmlinux), "-o", str(made.processed), "--contract", "stock"]
    assert main([*command, "--save-plan", str(made.plan)]) == 0
    yield made
    shutil.rmtree(directory)
