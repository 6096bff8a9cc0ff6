"""Downloads and builds, kept between runs under ``$XDG_CACHE_HOME/prologue``.

An entry is made in a temporary directory beside its place and renamed when whole; a lock lets a second process
wait instead of doing the work again.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from prologue_bench.errors import BenchError


def root() -> Path:
    """Return the cache directory, made if need be.

    Raises:
        BenchError: this user has none.

    """
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:
        raise BenchError("this user has no home directory for the cache: set XDG_CACHE_HOME") from error
    path = base.absolute() / "prologue"  # apt and make run in directories of their own
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the lock of that name; wait for the process that has it."""
    path = root() / "locks" / name.replace("/", "_")
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def produce(key: str, make: Callable[[Path], None]) -> Path:
    """Return the file or directory of that key; ``make(path)`` creates it if it is not there yet.

    ``key`` may contain slashes. If ``make`` fails or is killed, nothing is taken for whole later.

    Raises:
        BenchError: the disk is full.

    """
    target = root() / key
    if target.exists():
        return target
    with locked(key):
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            # The name is the key's own, so that what a killed maker left is found and removed by the next.
            scratch = root() / "making" / key.replace("/", "_")
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            try:
                make(scratch / target.name)
                (scratch / target.name).rename(target)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise BenchError(f"no space left for {key} in {root()}") from error
                raise
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return target
