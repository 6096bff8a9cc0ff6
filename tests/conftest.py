"""Fixtures that several tests share."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.mini_kernel.build import Spec, build
from tests.needs import needs_mini_kernel_tools


@pytest.fixture(scope="session")
def _mini_cache(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Spec], Path]:
    built: dict[Spec, Path] = {}

    def get(spec: Spec) -> Path:
        if spec not in built:
            built[spec] = build(spec, tmp_path_factory.mktemp("mini"))
        return built[spec]

    return get


@pytest.fixture
def mini(_mini_cache: Callable[[Spec], Path], tmp_path: Path) -> Callable[[Spec], Path]:
    """A fresh copy of the mini kernel of a Spec, to do with as the test likes."""
    needs_mini_kernel_tools()

    def copy(spec: Spec) -> Path:
        return Path(shutil.copy(_mini_cache(spec), tmp_path / "vmlinux"))

    return copy
