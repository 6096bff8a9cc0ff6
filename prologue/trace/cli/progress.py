"""The progress of work on a trace, on a terminal that shows nothing else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final

from prologue.report.terminal import is_quiet

_EVERY: Final = 0.5  # seconds


def progress_on_terminal() -> Callable[[int, int], None] | None:
    """Return what shows bytes decoded and the time left; None with ``--quiet``, or if standard output is a terminal.

    None, too, if standard error is not one.
    """
    return None if sys.stdout.isatty() else _progress("decoding", "bytes")


def steps_on_terminal(doing: str, unit: str, total: int) -> Callable[[int], None]:
    """Return what takes numbers of units that got done, and shows their share and the time left.

    It shows nothing with ``--quiet``, or if standard error is not a terminal.
    """
    show, done = _progress(doing, unit), 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if show is not None:
            show(done, total)

    return advance


def _progress(doing: str, unit: str) -> Callable[[int, int], None] | None:
    if is_quiet() or not sys.stderr.isatty():
        return None
    begun = shown = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < _EVERY and done < total:
            return
        shown = now
        left = (now - begun) * (total - done) / done if done else 0
        text = f"{doing}: {done / max(total, 1):.0%} of {total:,} {unit}, {left:.0f} s left" if done < total else ""
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()

    return show
