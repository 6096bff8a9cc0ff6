"""The writing side of a record file: one line for each boot, never changed again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from prologue_bench.errors import BenchError
from prologue_bench.recorder.record import SCHEMA, Record, encode_record
from prologue_bench.results.append_only import append, cut_torn_tail, lock

_HEAD: Final = f'{{"schema": "{SCHEMA}"'.encode()  # of every line that we write


@contextmanager
def appending(path: Path) -> Iterator[Callable[[Record], None]]:
    """Open a record file before the work, so that it cannot fail after it; give what appends a record to the disk.

    A last line that a killed writer left torn is cut off first. A file that we made and wrote nothing to is removed.

    Raises:
        BenchError: it cannot be written, is no record file, or another process records there.

    """
    try:
        with path.open("ab+") as stream:
            lock(stream, path)
            _require_records(stream, path)
            cut_torn_tail(stream)
            try:
                yield lambda record: append(stream, encode_record(record))
            finally:
                if not os.fstat(stream.fileno()).st_size:
                    with suppress(OSError):
                        path.unlink()
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error


def _require_records(stream: IO[bytes], path: Path) -> None:
    """Refuse the file of another program: it keeps its last line, and readers find every record."""
    stream.seek(0)
    head = stream.read(len(_HEAD))
    if not _HEAD.startswith(head):
        raise BenchError(
            f"{path}: exists and is not a record file: name another (a board's script prints to a file of its own)"
        )
