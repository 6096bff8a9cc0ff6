"""The kernel that most tests of this companion run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mini_kernel.build import Spec
from tests.rules.fixture import process
from tests.support.built import Mini


@pytest.fixture
def vmlinux(mini: Mini) -> Path:
    """A processed mini kernel with jump labels."""
    return process(mini(Spec(form="relr", labels=True)))
