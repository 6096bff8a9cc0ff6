"""One host thread for all CPUs of QEMU executes text as it was written; one for each does not always."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stale_text.run import build, run
from tests.support.needs import needs_tools

pytestmark = pytest.mark.qemu


def test_one_thread_executes_what_was_written(tmp_path: Path) -> None:
    needs_tools("qemu-system-aarch64", "aarch64-linux-gnu-gcc")
    image = build(tmp_path, rounds=20, functions=32)
    seen = run(image, "tcg,thread=single")
    assert (seen.executed, seen.stale) == (640, 0)
    assert run(image, "tcg,thread=multi").executed == 640  # stale or not depends on QEMU's release and on chance
