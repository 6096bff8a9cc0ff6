"""Writes output: what may be replaced, and files that appear whole or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from prologue.errors import OutputError
from prologue.signals import held_signals

_SUFFIX: Final = ".prologue.tmp"
_RANDOM: Final = 8  # characters between prefix and suffix, from mkstemp
_NAMED: Final = 60  # bytes of the output's name, which may itself be as long as names can be


def require_plain_target(path: Path) -> None:
    """Refuse what must not be written into or replaced.

    Raises:
        OutputError: a symbolic link, a hard link, a special file, a directory, or a read-only file.

    """
    try:
        status = path.lstat()
    except OSError as error:
        raise OutputError(error.strerror or "cannot be read", path=path) from error
    if stat.S_ISLNK(status.st_mode):
        raise OutputError(f"is a symbolic link: name {_end_of(path)} itself", path=path)
    if not stat.S_ISREG(status.st_mode):
        raise OutputError("is not a regular file", path=path)
    if status.st_nlink > 1:
        raise OutputError(f"has {status.st_nlink} hard links: writing would change the others too", path=path)
    if not status.st_mode & 0o222:
        raise OutputError(f"is read-only (mode {stat.S_IMODE(status.st_mode):04o})", path=path)


def _end_of(link: Path) -> str:
    """Follow a symbolic link to its file; Path.resolve raises RuntimeError if links form a loop."""
    try:
        link.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OutputError("is a symbolic link in a loop", path=link) from error
    return os.path.realpath(link)


def require_other(out: Path | None, *inputs: Path | None) -> None:
    """Refuse an output that is one of the files that are read.

    Raises:
        OutputError: it is.

    """
    if out and any(same_file(out, file) for path in inputs if path for file in _files_read(path)):
        raise OutputError("is also an input of this command: name another file", path=out)


def _files_read(path: Path) -> Iterator[Path]:
    """Yield a file and what is read with it: of a directory, as perf makes it, all files; of a kcore, perf's lists."""
    yield from (path, *path.glob("*"), *path.glob("kcore_dir/*"))
    if path.name == "kcore":
        yield from (path.with_name(name) for name in ("kallsyms", "modules"))


def require_distinct(*outs: Path | None) -> None:
    """Refuse two outputs that would be one file, whether it is there yet or not.

    Raises:
        OutputError: they would.

    """
    named = [out for out in outs if out]
    for k, out in enumerate(named):
        if any(would_be_same(out, other) for other in named[:k]):
            raise OutputError("is named for two outputs of this command: name another file", path=out)


def would_be_same(out: Path, other: Path) -> bool:
    """Return whether two names are, or would become, one file."""
    return os.path.realpath(out) == os.path.realpath(other) or same_file(out, other)


def same_file(out: Path, source: Path) -> bool:
    """Return whether both name one file; no if one of them is not there, or cannot be reached."""
    try:
        return out.samefile(source)
    except OSError:
        return False


@contextmanager
def temporary_beside(out: Path) -> Iterator[Path]:
    """Give an empty file in the directory of ``out``; it is removed at the end, unless it was renamed by then.

    What a killed run left of the same output is removed first. A run that lives holds the lock of its file.
    """
    prefix = f".{os.fsdecode(os.fsencode(out.name)[:_NAMED])}."
    _remove_left(out.parent, prefix)
    with held_signals() as release:  # until the file is sure to be removed
        fd, temporary = _locked_temporary(out.parent, prefix)
        try:
            release()
            yield temporary
        finally:
            try:
                temporary.unlink(missing_ok=True)
            finally:
                os.close(fd)


def _locked_temporary(directory: Path, prefix: str) -> tuple[int, Path]:
    """Make a file that no other run takes for one that was left."""
    import tempfile

    while True:
        fd, name = tempfile.mkstemp(prefix=prefix, suffix=_SUFFIX, dir=directory)
        with suppress(OSError):  # no locks on this file system: then no other process gets one, either
            fcntl.flock(fd, fcntl.LOCK_EX)
        if os.fstat(fd).st_nlink:
            return fd, Path(name)
        os.close(fd)  # removed in the instant before it was locked


def _remove_left(directory: Path, prefix: str) -> None:
    """Remove temporary files of runs that were killed. Files of others, and what cannot be removed, stay."""
    length = len(prefix) + _RANDOM + len(_SUFFIX)
    with suppress(OSError):
        # For each of thousands of modules of one directory: no Path, no DirEntry.
        names = [name for name in os.listdir(directory) if name.startswith(prefix)]  # noqa: PTH208 - as above
        for name in names:
            if name.endswith(_SUFFIX) and len(name) == length:
                with suppress(OSError):
                    _remove_unlocked(os.path.join(directory, name))  # noqa: PTH118 - names need not be text


def _remove_unlocked(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink == 1:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)  # noqa: PTH108 - names need not be text
    finally:
        os.close(fd)


def settle(path: Path, mode: int) -> None:
    """Give a written file its mode, and wait until it is on disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fchmod(fd, mode)
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def new_file(out: Path, *, like: Path | None = None, mode: int | None = None) -> Iterator[Path]:
    """Give a temporary file beside ``out`` that becomes ``out`` if the block succeeds and vanishes if it does not.

    It gets ``mode``, or the one of the file ``like``, or what new files get. Of ``/dev/null`` nothing is left.

    Raises:
        OutputError: ``out`` may not be replaced, or its directory cannot be written.

    """
    to_null = is_null(out)
    if not to_null and (out.is_symlink() or out.exists()):
        require_plain_target(out)
    with ExitStack() as stack:
        try:
            temporary = stack.enter_context(temporary_beside(_scratch(out) if to_null else out))
        except OSError as error:
            raise OutputError(f"cannot be created: {error.strerror}", path=out) from error
        try:
            yield temporary
            if to_null:
                return
            # Writable by its owner whatever the input was: the same command must be able to replace it.
            if mode is None:
                mode = stat.S_IMODE(like.stat().st_mode) & 0o777 | stat.S_IWUSR if like else 0o666 & ~umask()
            settle(temporary, mode)
            temporary.replace(out)
        except OSError as error:
            raise OutputError(f"cannot be written: {error.strerror}; nothing was left behind", path=out) from error
    _sync_directory(out.parent)


def is_null(path: Path) -> bool:
    """Return whether what is written there is thrown away."""
    try:
        status, null = path.lstat(), Path(os.devnull).stat()
    except OSError:
        return False
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == null.st_rdev


def _scratch(out: Path) -> Path:
    import tempfile

    return Path(tempfile.gettempdir()) / out.name


@contextmanager
def new_directory(out: Path) -> Iterator[None]:
    """Make a directory, which vanishes with all in it if the block that fills it does not succeed.

    Raises:
        OutputError: ``out`` is there, or cannot be written.

    """
    import shutil

    with held_signals() as release:  # until the directory is sure to be removed
        try:
            out.mkdir()
        except OSError as error:
            raise OutputError(f"cannot be created: {error.strerror}", path=out) from error
        try:
            release()
            yield
        except BaseException as error:
            shutil.rmtree(out, ignore_errors=True)
            if isinstance(error, OSError):
                reason = f"cannot be written: {error.strerror}; nothing was left behind"
                raise OutputError(reason, path=out) from error
            raise


def write_text(out: Path, text: str) -> None:
    """Write a text file, names that are not UTF-8 as the file system has them.

    Raises:
        OutputError: as ``new_file``.

    """
    with new_file(out) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="surrogateescape")


def umask() -> int:
    """Return the mode bits that new files of this process do not get."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_directory(directory: Path) -> None:
    """Make the rename itself durable; file systems that cannot say so are none of our business."""
    with suppress(OSError):
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
