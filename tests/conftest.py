"""Fixtures that several tests share."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from tests.mini_kernel.build import Spec
from tests.real_kernels import prebuild
from tests.support.built import AnySpec, Mini, built
from tests.support.needs import needs_mini_kernel_tools

# What chance finds is found while somebody works, and then gets an example; a gate must not depend on chance.
settings.register_profile("gate", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("gate")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin with the kernels that will be needed."""
    if not session.config.option.collectonly and any(item.get_closest_marker("builds") for item in session.items):
        builder = prebuild.start()
        session.config.add_cleanup(lambda: prebuild.stop(builder))


@pytest.fixture
def mini(tmp_path: Path) -> Mini:
    """A fresh copy of the mini kernel or module of a spec, to do with as the test likes."""
    needs_mini_kernel_tools()

    def copy(spec: AnySpec) -> Path:
        return Path(shutil.copy(built(spec), tmp_path / ("vmlinux" if isinstance(spec, Spec) else "mini.ko")))

    return copy
