"""What the tests of Debian's kernels share."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from prologue.cli.main import main
from tests.real_kernels.debian import Case
from tests.support.needs import needs_kernel


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
