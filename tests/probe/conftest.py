"""The small kernel that most tests of probes ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probe.made_kernel import TOOLS, make
from tests.support.needs import needs_tools


@pytest.fixture(scope="session")
def vmlinux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It is made once, and only read."""
    needs_tools(*TOOLS)
    return make(tmp_path_factory.mktemp("made"))
