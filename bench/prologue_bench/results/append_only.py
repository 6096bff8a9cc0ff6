"""Files that get one line after the other, each of them whole or not there: nothing in them is ever changed."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
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
        raise BenchError(f"{name}: another process is recording there") from error


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


def split_lines(content: bytes) -> tuple[list[tuple[int, bytes]], bool]:
    """Split such a file into lines, each with its number; and say whether a torn last one was left out.

    A last line that only lacks its end is whole.
    """
    *lines, tail = content.split(b"\n")
    numbered = list(enumerate(lines, 1))
    if not tail.strip():
        return numbered, False
    try:
        parse(tail, "the last line")
    except BenchError:
        return numbered, True
    return [*numbered, (len(lines) + 1, tail)], False


def torn_note(path: Path) -> str:
    """Write the note of reports on a file whose last line was left out."""
    return f"{path.name}: the last line is torn (its writer was killed) and was left out"


def append(stream: IO[bytes], line: str) -> None:
    """Add a line with its end; it is on disk when this returns."""
    stream.write(line.encode())
    stream.flush()
    os.fsync(stream.fileno())
