"""Fixtures that several tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tests.mini_kernel.build import Spec, build
from tests.mini_module.build import ModuleSpec, build_module
from tests.real_kernels import prebuild
from tests.support.needs import needs_mini_kernel_tools

# What chance finds is found while somebody works, and then gets an example; a gate must not depend on chance.
settings.register_profile("gate", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("gate")

AnySpec = Spec | ModuleSpec


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin with the kernels that will be needed."""
    if not session.config.option.collectonly and any(item.get_closest_marker("builds") for item in session.items):
        builder = prebuild.start()
        session.config.add_cleanup(lambda: prebuild.stop(builder))


@pytest.fixture(scope="session")
def _mini_cache(tmp_path_factory: pytest.TempPathFactory) -> Callable[[AnySpec], Path]:
    built: dict[AnySpec, Path] = {}

    def get(spec: AnySpec) -> Path:
        if spec not in built:
            directory = tmp_path_factory.mktemp("mini")
            built[spec] = build(spec, directory) if isinstance(spec, Spec) else build_module(spec, directory)
        return built[spec]

    return get


@pytest.fixture
def mini(_mini_cache: Callable[[AnySpec], Path], tmp_path: Path) -> Callable[[AnySpec], Path]:
    """A fresh copy of the mini kernel or module of a spec, to do with as the test likes."""
    needs_mini_kernel_tools()

    def copy(spec: AnySpec) -> Path:
        name = "vmlinux" if isinstance(spec, Spec) else "mini.ko"
        return Path(shutil.copy(_mini_cache(spec), tmp_path / name))

    return copy
