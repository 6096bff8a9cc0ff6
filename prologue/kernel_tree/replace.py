"""Writes files of a kernel tree: first every new file beside the old one, then all of them are renamed.

A file is replaced, never written into: trees are often copied with hard links. Editors do not lock kernel trees, so
the lock keeps out a second prologue only.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from prologue.errors import BusyError, InputError, OutputError


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other runs of prologue off a tree.

    Raises:
        BusyError: another one is working on it.
        InputError: the directory cannot be opened.

    """
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"cannot be opened: {error.strerror}", path=directory) from error
    try:
        with suppress(OSError):  # some network file systems cannot lock directories: then there is no lock
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BusyError(
                    "another prologue is working on this tree: wait for it, then run again", path=directory
                ) from None
        yield
    finally:
        os.close(fd)


def replace_files(root: Path, contents: Mapping[str, bytes | None]) -> None:
    """Give each file its content, in this order; None removes it, after all others are written.

    Raises:
        OutputError: a file cannot be written; the message says whether anything was changed.

    """
    staged: list[tuple[Path, Path]] = []
    changed = False
    try:
        for name, content in contents.items():
            if content is not None:
                target = root / name
                temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
                staged.append((temporary, target))
                _write(temporary, content, target)
        for temporary, target in staged:
            temporary.replace(target)
            changed = True
        for name, content in contents.items():
            if content is None:
                (root / name).unlink()
                changed = True
    except OSError as error:
        so = "run the same command again to finish" if changed else "nothing was changed"
        raise OutputError(f"cannot be written: {error.strerror}; {so}", path=error.filename or root) from error
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)


def _write(temporary: Path, content: bytes, like: Path) -> None:
    """Write a new file with the mode and the owner of the one that it will replace."""
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with os.fdopen(fd, "wb") as stream:
        with suppress(FileNotFoundError):
            status = like.stat()
            with suppress(PermissionError):  # only root may give files away
                os.fchown(fd, status.st_uid, status.st_gid)
            os.fchmod(fd, stat.S_IMODE(status.st_mode))
        stream.write(content)
        stream.flush()
        os.fsync(fd)
