"""Opens what must be a regular file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prologue.errors import InputError


@contextmanager
def open_regular(path: Path) -> Iterator[tuple[int, int]]:
    """Open for reading; yields the descriptor and the size in bytes.

    Raises:
        InputError: it cannot be opened, is no regular file, or is empty.

    """
    try:
        # O_NONBLOCK: opening a FIFO must be an error, not a wait.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"cannot be opened: {error.strerror}", path=path) from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise InputError("is not a regular file", path=path)
        if not status.st_size:
            raise InputError("is empty", path=path)
        yield fd, status.st_size
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    finally:
        os.close(fd)
