"""A kernel of Debian's that runs, for the tests that log in to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.real_kernels.states import programs
from tests.support.live_guest import Guest, live_guest
from tests.support.needs import needs_kernel, needs_modules

MODULES = ("overlay", "loop", "brd")


@pytest.fixture(scope="module", params=[pytest.param("bookworm", marks=pytest.mark.extended), "trixie"])
def guest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """6.1 where it is linked, 6.12 where KASLR puts it."""
    directory = tmp_path_factory.mktemp(f"live-{request.param}")
    kernel = needs_kernel(request.param)
    package = needs_modules(kernel)
    append = "nokaslr" if request.param == "bookworm" else ""
    with live_guest(
        kernel.vmlinux, directory, package=package, modules=MODULES, files=programs(), append=append
    ) as made:
        yield made
