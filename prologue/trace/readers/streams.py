"""Streams of traces: files and standard input, compressed or not; text in blocks of whole lines."""

from __future__ import annotations

import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from prologue.elf.compressed import compression
from prologue.elf.files import open_regular
from prologue.errors import InputError

STDIN: Final = "-"
BLOCK: Final = 2 << 20
"""Bytes of text that are parsed together: few enough for the caches of a CPU, enough for numpy's calls to be few."""
_STEP: Final = 1 << 12  # bytes of zstd at once; damage loses all of the step that it is in
_WINDOW: Final = 128 << 20  # as zstd -22 --ultra asks for; a damaged header gets no more
LONGEST_LINE: Final = 1 << 20
"""No tool prints a longer one; without a bound, a file without line ends would be read into memory whole."""


class Peekable:
    """A stream whose first bytes can be looked at; reads are as long as asked for, except for the last one."""

    def __init__(self, raw: Any, name: str) -> None:
        # A read() of Python's decompressors returns nothing of a call that meets damage.
        self._read_some = getattr(raw, "read1", raw.read)
        self.name = name
        self._head = b""
        self._damage: InputError | None = None

    def peek(self, size: int) -> bytes:
        """Return up to ``size`` bytes that the next read begins with; errors as ``read``."""
        if len(self._head) < size:
            self._head += self._fill(size - len(self._head))
        self._raise_at_the_end()
        return self._head[:size]

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer than ``size`` at the end, and before damage, only.

        Raises:
            InputError: the file or its compressed content is damaged, and all before the damage was read.

        """
        if len(self._head) < size:
            self._head += self._fill(size - len(self._head))
        if size:
            self._raise_at_the_end()
        head, self._head = self._head[:size], self._head[size:]
        return head

    def _raise_at_the_end(self) -> None:
        if not self._head and self._damage is not None:
            raise self._damage

    def _fill(self, size: int) -> bytes:
        parts = []
        while size > 0 and self._damage is None:
            try:
                part = self._some(size)
            except InputError as damage:
                self._damage = damage
                break
            if not part:
                break
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _some(self, size: int) -> bytes:
        from zstandard import ZstdError

        try:
            return bytes(self._read_some(size))
        except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile, ZstdError) as error:
            raise InputError(f"its compressed data are damaged or cut ({error})", path=self.name) from error
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", path=self.name) from error


class _Zstd:
    """Frames of zstd, one after the other; zstandard's own reader takes a frame that was cut for one that ended."""

    def __init__(self, raw: Peekable) -> None:
        self._raw = raw
        self._frame: Any = None
        self._input = b""

    def read(self, size: int) -> bytes:
        """Return some bytes, perhaps more than ``size``; no bytes at the end.

        Raises:
            EOFError: the last frame was cut.

        """
        import zstandard

        while True:
            data = self._input or self._raw.read(_STEP)
            self._input = b""
            if not data:
                if self._frame is not None:
                    raise EOFError("the last frame does not end")
                return b""
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
            content: bytes = self._frame.decompress(data)
            if self._frame.eof:
                self._input, self._frame = self._frame.unused_data, None
            if content:
                return content


@contextmanager
def open_stream(source: str) -> Iterator[Peekable]:
    """Open a file, or standard input for ``-``, and decompress it if it is compressed.

    Raises:
        InputError: there is no such file, or it is a directory.

    """
    with ExitStack() as stack:
        raw: BinaryIO
        if source == STDIN:
            if sys.stdin is None:
                raise InputError("is closed", path="standard input")
            raw, name = sys.stdin.buffer, "standard input"
        else:
            raw, name = stack.enter_context(_open(Path(source))), source
        plain = Peekable(raw, name)
        kind = compression(plain.peek(8))
        opened: Any = plain
        if kind == "gzip":
            opened = gzip.GzipFile(fileobj=cast(BinaryIO, plain))
        elif kind == "xz":
            opened = lzma.LZMAFile(cast(BinaryIO, plain))  # noqa: SIM115 - as above
        elif kind == "zstd":
            opened = _Zstd(plain)
        yield plain if opened is plain else Peekable(opened, name)


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file, or a FIFO, as a process substitution of the shell gives."""
    if path.is_fifo() or path.is_char_device():
        with path.open("rb") as stream:
            yield stream
        return
    with open_regular(path) as (fd, _):
        stream = os.fdopen(os.dup(fd), "rb")
    with stream:  # apart from open_regular: errors of the caller are not this file's
        yield stream


def blocks(stream: Peekable, before: bytes = b"", after: bytes = b"") -> Iterator[bytes]:
    """Yield whole lines, 2 MB at once, between ``before`` and ``after``; the last line may lack its end, and gets it.

    Raises:
        InputError: there are no lines, or the stream is damaged; then after the last whole line before the damage.

    """
    rest = b""
    while True:
        data = stream.read(BLOCK)
        if not data:
            break
        end = data.rfind(b"\n") + 1
        if not end:
            rest += data
            if len(rest) > LONGEST_LINE + BLOCK:
                raise InputError(f"has no line end in {len(rest):,} bytes: not the text of a trace", path=stream.name)
            continue
        yield b"".join((before, rest, memoryview(data)[:end], after))
        rest = data[end:]
    if rest:
        yield before + rest + b"\n" + after
