"""What tests of traces share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.needs import needs_opencsd
from tests.support.tool import Tool
from tests.trace.made import Run


@pytest.fixture
def opencsd() -> None:
    """OpenCSD's library."""
    needs_opencsd()


@pytest.fixture
def run(tmp_path: Path, tool: Tool) -> Run:
    """Commands on traces of the made kernel."""
    return Run(tmp_path, tool)
