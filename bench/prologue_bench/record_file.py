"""The writing side of a record file: one line for each boot, never changed again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prologue_bench.append_only import append, cut_torn_tail, lock
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
            lock(stream, path)
            cut_torn_tail(stream)
            try:
                yield lambda record: append(stream, encode_record(record))
            finally:
                if not os.fstat(stream.fileno()).st_size:
                    with suppress(OSError):
                        path.unlink()
    except OSError as error:
        raise BenchError(f"{path}: {error.strerror}") from error
