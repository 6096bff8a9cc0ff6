"""Kernels with unusual configurations: verified, processed, booted, traced, audited; ``make kernels`` has more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels.examine import examine
from tests.kernels.recipes import KERNELS, TESTED
from tests.support.needs import needs_built_kernel, needs_tools

# test_native_boot has two kernels with our patch, test_releases a 7.3.
pytestmark = [pytest.mark.extended, pytest.mark.kernel, pytest.mark.builds, pytest.mark.qemu, pytest.mark.timeout(2400)]


@pytest.mark.parametrize("name", TESTED)
def test_all_is_well(name: str, tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "cpio")
    kernel = KERNELS[name]
    seen = examine(kernel, needs_built_kernel(kernel.recipe), tmp_path, toggles=5, only=True)
    assert seen.failed == {}
    assert len(seen.boots) == 1
