"""Trees that the tests here start from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from prologue.kernel_tree.patches import all_series
from tests.support.needs import needs_common_tools
from tests.support.trees import made_tree


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    needs_common_tools("git")
    for name in [name for name in os.environ if name.startswith("GIT_")] + ["PROLOGUE"]:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(params=all_series())
def every_tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return made_tree(request.param, tmp_path / "linux")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return made_tree(all_series()[-1], tmp_path / "linux")
