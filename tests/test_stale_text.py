"""One host thread for all CPUs of QEMU executes text as it was written; one for each does not always.

``python -m tests.test_stale_text`` prints how often, as docs/evidence/writes.md has it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tabulate import tabulate

from prologue_bench.guest.vm import qemu_version
from tests.mini_kernel.build import Spec, build
from tests.mini_kernel.run import run
from tests.support.needs import needs_common_tools

pytestmark = pytest.mark.qemu
MULTI, SINGLE = "tcg,thread=multi", "tcg,thread=single"


def counts(vmlinux: Path, accel: str) -> list[int]:
    """Functions that were run after they had been written, and how many of them ran a word that was gone, and again."""
    boot = run(vmlinux, 60, accel=accel)
    assert boot.passed, boot.lines
    return [int(boot.values[name]) for name in ("executed", "stale", "stale_again")]


@pytest.mark.thorough
def test_one_thread_executes_what_was_written(mini: Callable[[Spec], Path]) -> None:
    needs_common_tools("qemu-system-aarch64")
    vmlinux = mini(Spec(rewritten=10))
    assert counts(vmlinux, SINGLE) == [640, 0, 0]
    assert counts(vmlinux, MULTI)[0] == 640  # stale or not depends on QEMU's release and on chance


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        made = build(Spec(rewritten=300), Path(directory))
        rows = [(accel, *counts(made, accel)) for accel in (MULTI, SINGLE)]
    print(qemu_version())
    print(tabulate(rows, ("accelerator", "executed", "stale", "stale again"), tablefmt="github"))
