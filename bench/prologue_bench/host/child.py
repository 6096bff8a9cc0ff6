"""What a child process does when we die, even by SIGKILL: for ``preexec_fn``."""

from __future__ import annotations

import ctypes
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_LIBC: Final = ctypes.CDLL(None)  # loaded here: between fork and exec nothing may be


def die_with_parent() -> None:
    """It is killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def end_with_parent() -> None:
    """It is asked to end, and can tidy up."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
