"""The progress of decoding a trace, on a terminal that shows nothing else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from prologue.report.terminal import is_quiet

_EVERY: Final = 0.5  # seconds


def progress_on_terminal() -> Callable[[int, int], None] | None:
    """Return what shows bytes done and the time left; None with ``--quiet``, or if standard output is a terminal.

    None, too, if standard error is not one.
    """
    if is_quiet() or not sys.stderr.isatty() or sys.stdout.isatty():
        return None
    begun = shown = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < _EVERY and done < total:
            return
        shown = now
        left = (now - begun) * (total - done) / done if done else 0
        text = f"decoding: {done / max(total, 1):.0%} of {total:,} bytes, {left:.0f} s left" if done < total else ""
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    return show
