"""Files that get one line after the other, each of them whole or not there: nothing in them is ever changed."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import IO

from prologue_bench.errors import BenchError
from prologue_bench.results.fields import parse


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
    """Make the file end with a whole line: remove a last one that its writer was killed in.

    A last line that only lacks its end counts for every reader, and gets its end.
    """
    stream.seek(0)
    content = stream.read()
    tail = content[content.rfind(b"\n") + 1 :]
    if not tail:
        return
    try:
        parse(tail, "the last line")
    except BenchError:
        stream.truncate(len(content) - len(tail))
        stream.seek(0, os.SEEK_END)
    else:
        append(stream, "\n")


def append(stream: IO[bytes], line: str) -> None:
    """Add a line with its end; it is on disk when this returns."""
    stream.write(line.encode())
    stream.flush()
    os.fsync(stream.fileno())
