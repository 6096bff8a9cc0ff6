"""Identities of the files that a verdict is about: path, release, build-id and SHA-256; and its date."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final, Literal

from prologue.elf.files import open_regular
from prologue.errors import InputError, UsageError
from prologue.kernel.binary import Binary

FileRole = Literal["judged", "vmlinux", "before", "image"]
"""``vmlinux``: the kernel that modules were judged for; ``before`` and ``image``: what a file was compared with."""
_EPOCH: Final = "SOURCE_DATE_EPOCH"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileIdentity:
    """A file and its part in the verdict; text is empty where a file does not say, or could not be read."""

    path: Path
    role: FileRole
    release: str = ""
    build_id: str = ""
    sha256: str = ""  # of the file as it is stored, compressed or not

    def named(self) -> dict[str, str]:
        """Return what is known, by the names that reports have for it."""
        known = {"release": self.release, "build-id": self.build_id, "sha256": self.sha256}
        return {name: value for name, value in known.items() if value}


def identity_of(binary: Binary, role: FileRole) -> FileIdentity:
    """Return what an open file says of itself, without its hash."""
    return FileIdentity(path=binary.path, role=role, release=binary.release, build_id=binary.build_id)


class Hashes:
    """The SHA-256 of files, computed by a thread while they are verified: hashing a kernel takes half as long."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._hashes = {path: self._pool.submit(_sha256, path, file_state(path)) for path in dict.fromkeys(paths)}
        self._pool.shutdown(wait=False)

    def of(self, path: Path) -> str:
        """Return the hash (hex) of one of the files; empty if it cannot be read."""
        try:
            return self._hashes[path].result()
        except InputError:
            return ""


def require_unchanged(path: Path, before: tuple[int, ...]) -> None:
    """Refuse a file that was written or replaced meanwhile: its hash may be that of other bytes.

    Raises:
        InputError: its ``file_state`` is another one than before.

    """
    if file_state(path) != before:
        raise InputError("was changed while it was verified: verify it again", path=path)


def file_state(path: Path) -> tuple[int, ...]:
    """Return device, inode, size and time of the last change; empty if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


@cache  # the kernel of a thousand modules
def _sha256(path: Path, _now: tuple[int, ...]) -> str:
    with open_regular(path) as (fd, _), os.fdopen(fd, "rb", closefd=False) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verification_date() -> str:
    """Return the time in UTC, as in ``2026-11-29T08:00:00Z``; that of ``SOURCE_DATE_EPOCH`` if it is set.

    Raises:
        UsageError: it is no number of seconds.

    """
    seconds = os.environ.get(_EPOCH)
    try:
        date = datetime.now(tz=UTC) if not seconds else datetime.fromtimestamp(int(seconds), tz=UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"{_EPOCH}={seconds} is not a time in seconds") from error
    return date.strftime("%Y-%m-%dT%H:%M:%SZ")
