"""Signals that have to wait: for what must not be interrupted half-way."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
"""Signals of which the commands make KeyboardInterrupt; SIGALRM repeats one that came during an import."""


@contextmanager
def held_signals() -> Iterator[Callable[[], None]]:
    """Let signals wait, also in processes that are forked here, until the end or until what is given is called."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        yield release
    finally:
        release()
