"""A time limit for calls that may never return."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after so many seconds: for library code whose waits have no end.

    That needs a signal, so in another thread than the main one it does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise TimeoutError(f"not done within {seconds:.0f} s")

    begin = time.monotonic()
    handler = signal.signal(signal.SIGALRM, late)
    # Again every few seconds, in case the exception was swallowed.
    left, interval = signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), 5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begin), 0.001), interval)
