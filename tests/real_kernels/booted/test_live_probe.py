"""The examples of docs/probe.md on the releases that tests/real_kernels/booted/test_live.py does not boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real_kernels.live_probe_examples import check_examples
from tests.support.live_guest import live_guest
from tests.support.needs import needs_kernel, needs_modules

pytestmark = [pytest.mark.kernel, pytest.mark.qemu, pytest.mark.extended, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("suite", ["bullseye", "sid", "trixie-backports"])
def test_probes_are_traced(suite: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = needs_kernel(suite)
    modules = needs_modules(suite, kernel.release)
    with live_guest(kernel.vmlinux, tmp_path, package=modules, modules=("loop",)) as guest:
        check_examples(guest, capsys)
