"""Lines of every kind are taken by a kernel in one go, and what is refused offline is refused there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real_kernels.kprobes.lines import Prepared, compare_with_perf, prepare, prove
from tests.real_kernels.kprobes.perf_compare import EQUAL, OPEN
from tests.support.needs import needs_kernel, needs_modules, needs_tools

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.extended, pytest.mark.timeout(1200)]

REQUESTS = 80
OF_PERF = 24


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    needs_modules(needs_kernel("trixie"))
    return prepare("6.12", REQUESTS, 2)


def test_the_kernel_agrees_about_each_line(prepared: Prepared, tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "cpio")
    result = prove(prepared, tmp_path)
    assert result.disagreements == []
    assert len(result.taken) > 20  # kinds
    assert result.taken.total() > REQUESTS * 0.6
    assert result.refused.total() > REQUESTS * 0.2


def test_perf_agrees_or_it_is_known_why_not(prepared: Prepared) -> None:
    needs_tools("perf")
    result = compare_with_perf(prepared, OF_PERF)
    assert [outcome for outcome in (*result.places, *result.arguments) if outcome.startswith(OPEN)] == []
    assert len(result.places[EQUAL]) > OF_PERF / 2
    assert len(result.arguments[EQUAL]) > OF_PERF / 4
