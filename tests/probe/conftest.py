"""The small kernel that most tests of probes ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probe.made_kernel import make


@pytest.fixture(scope="session")
def vmlinux(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It is made once, and only read."""
    return make(tmp_path_factory.mktemp("made"))
