"""The writing side of a record file: one line for each boot, never changed again."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from prologue_bench.errors import BenchError
from prologue_bench.record import Record, encode_record


@contextmanager
def appending(path: Path) -> Iterator[Callable[[Record], None]]:
    """Open a record file before the work, lest it fail after it; give what appends a record, on disk when it returns.

    A last line that a killed writer left torn is cut off first. A file that we made and wrote nothing to is removed.

    Raises:
        BenchError: it cannot be written, or another process records there.

    """
    try:
        with path.open("ab+") as stream:
            _lock(stream, path)
            _cut_torn_tail(stream)
            try:
                yield lambda record: _append(stream, record)
            finally:
                if not os.fstat(stream.fileno()).st_size:
                    with suppress(OSError):
                        path.unlink()
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error


def _lock(stream: IO[bytes], path: Path) -> None:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            raise
        raise BenchError(f"{path}: another process records there, and would disturb this one") from error


def _cut_torn_tail(stream: IO[bytes]) -> None:
    stream.seek(0)
    content = stream.read()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        stream.truncate(whole)


def _append(stream: IO[bytes], record: Record) -> None:
    stream.write(encode_record(record).encode())
    stream.flush()
    os.fsync(stream.fileno())
