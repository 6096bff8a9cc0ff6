"""Writes files of a kernel tree: first every new file beside the old one, then all of them are renamed.

A file is replaced, never written into: trees are often copied with hard links. Editors do not lock kernel trees, so
the lock keeps out a second prologue only.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from prologue.errors import BusyError, InputError, OutputError
from prologue.outputs import settle, temporary_beside, umask


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
    changed = False
    with ExitStack() as stack:  # whatever happens, no temporary file stays
        try:
            staged: list[tuple[Path, Path]] = []
            for name, content in contents.items():
                if content is not None:
                    temporary = stack.enter_context(temporary_beside(root / name))
                    _write(temporary, content, root / name)
                    staged.append((temporary, root / name))
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


def _write(temporary: Path, content: bytes, like: Path) -> None:
    """Write the new file, with the mode and the owner of the one that it will replace."""
    temporary.write_bytes(content)
    mode = 0o666 & ~umask()
    with suppress(FileNotFoundError):
        status = like.stat()
        mode = stat.S_IMODE(status.st_mode)
        with suppress(PermissionError):  # only root may give files away
            os.chown(temporary, status.st_uid, status.st_gid)
    settle(temporary, mode)
