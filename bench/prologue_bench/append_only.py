"""Files that get one line after the other, each of them whole or not there: nothing in them is ever changed."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import IO

from prologue_bench.errors import BenchError


def lock(stream: IO[str] | IO[bytes], name: object) -> None:
    """Hold the lock of an open file until it is closed.

    Raises:
        BenchError: another process has it.

    """
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            raise
        raise BenchError(f"{name}: another process records there, and would disturb this one") from error


def cut_torn_tail(stream: IO[bytes]) -> None:
    """Remove a last line without its end: its writer was killed, and what it says was never whole."""
    stream.seek(0)
    content = stream.read()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        stream.truncate(whole)
    stream.seek(0, os.SEEK_END)


def append(stream: IO[bytes], line: str) -> None:
    """Add a line with its end; it is on disk when this returns."""
    stream.write(line.encode())
    stream.flush()
    os.fsync(stream.fileno())
