"""What tests of traces share."""

from __future__ import annotations

import pytest

from prologue.errors import InputError
from prologue.trace.coresight.library import require_library
from tests.support.needs import missing


@pytest.fixture
def opencsd() -> None:
    """OpenCSD's library."""
    try:
        require_library()
    except InputError as error:
        missing(str(error))
