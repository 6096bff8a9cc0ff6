"""Reads files out of Debian packages without installing them."""

from __future__ import annotations

import io
import posixpath
import subprocess
import tarfile
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from prologue_bench.errors import BenchError
from prologue_bench.host import programs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class PackageFiles:
    """The files of a small package, held in memory; paths are as installed, without the leading slash."""

    def __init__(self, deb: Path) -> None:
        with tar_stream(deb) as stream:
            self._tar = tarfile.open(fileobj=io.BytesIO(stream.read()))  # noqa: SIM115 - lives as long as we do
        self._members = {posixpath.normpath(member.name): member for member in self._tar}

    def find(self, name: str) -> bytes | None:
        """Return the content of the file called `name` in any directory, symbolic links followed; None if absent."""
        for path in self._members:
            if posixpath.basename(path) == name and (content := self._content(path)) is not None:
                return content
        return None

    def _content(self, path: str) -> bytes | None:
        for _ in range(8):  # a longer chain of links is a loop
            member = self._members.get(path)
            if member is None:
                return None
            if not member.issym():
                stream = self._tar.extractfile(member)
                return None if stream is None else stream.read()
            # An absolute target makes join() drop the directory, as the file system would.
            path = posixpath.normpath(posixpath.join(posixpath.dirname(path), member.linkname)).lstrip("/")
        return None


@contextmanager
def tar_stream(deb: Path) -> Iterator[IO[bytes]]:
    """Yield the package's file system as an uncompressed tar stream. A truncated package raises BenchError."""
    with subprocess.Popen(
        [programs.find("dpkg-deb"), "--fsys-tarfile", str(deb)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None  # noqa: S101 - PIPE, for the type checker
        assert process.stderr is not None  # noqa: S101
        try:
            yield process.stdout
            # A reader that gets to the end must know that the package is whole.
            if process.stdout.read(1) == b"" and process.wait() != 0:
                raise BenchError(f"{deb}: {_last_line(process.stderr.read())}")
        except tarfile.TarError as error:
            raise BenchError(f"{deb}: not a whole package: {error}") from error
        finally:
            process.kill()  # it may still have much to write


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "dpkg-deb failed"
