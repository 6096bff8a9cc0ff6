"""Small running kernels, made once: tests write cores of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.hooks.hooked import make


@pytest.fixture(scope="session")
def recent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As 7.2 has its structs."""
    return make(tmp_path_factory.mktemp("recent"))


@pytest.fixture(scope="session")
def former(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As before 6.10."""
    return make(tmp_path_factory.mktemp("former"), "-DFORMER")


@pytest.fixture(scope="session")
def vmlinux(recent: Path) -> Path:
    """The one of which most tests have cores."""
    return recent
