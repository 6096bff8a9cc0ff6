"""Signals: which ones end a run, how they do it, and code that must not be interrupted half-way."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HELD: Final = (*_ENDING, signal.SIGALRM)  # SIGALRM only repeats a signal that came during an import
_IMPORT: Final = "<frozen importlib._bootstrap>"
_AGAIN: Final = 0.01  # seconds until the next look whether an import is over


def interrupt_on_signals() -> None:
    """Raise KeyboardInterrupt, so that temporary files go away; what was ignored before (nohup) stays ignored."""
    for number in _ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


def interrupt_if_one_waits() -> None:
    """Raise what came during an import that the run ended with: otherwise a short run would pass over it."""
    if signal.getsignal(signal.SIGALRM) is _interrupt and signal.getitimer(signal.ITIMER_REAL)[0]:
        raise KeyboardInterrupt


def ignore_signals() -> None:
    """Ignore signals from here on, and end as planned; a terminal that hangs up reports that more than once."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def begin_worker() -> None:
    """Set up a process of a pool: the one that started it decides when it ends, and Ctrl-C reaches both."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)


@contextmanager
def held_signals() -> Iterator[Callable[[], None]]:
    """Let signals wait, also in processes that are forked here, until the end or until what is given is called."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    try:
        yield release
    finally:
        release()


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not into an import: numpy would print it and raise ImportError in its place."""
    if _imports(frame):
        signal.signal(signal.SIGALRM, _interrupt)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN)
        return
    if number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, _heard)
    raise KeyboardInterrupt


def _heard(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: cleaning up has begun. Ctrl-C may still be pressed once more, if it takes too long."""


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back
    return False
