"""A disk without room, as a limit of the size of files."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file become longer than that many bytes; Python writes no compiled modules, which would be cut."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = writes_none
        signal.signal(signal.SIGXFSZ, handler)
