"""What tests of traces share."""

from __future__ import annotations

import pytest

from tests.support.needs import needs_opencsd


@pytest.fixture
def opencsd() -> None:
    """OpenCSD's library."""
    needs_opencsd()
