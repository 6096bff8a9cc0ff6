"""Compressed files as the kernel's own build makes and takes them: gzip, xz and zstd (lzma and bzip2, to read only).

The first three may hold several streams, one after the other; they count as one file here, as for the command line
tools. (The decompressor for modules inside the kernel stops after the first: ``kernel/module/decompress.c``, 6.12.
What ``compress`` makes is one stream.)
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Generator, Iterator
from mmap import mmap
from typing import Final, Protocol

from prologue.elf.identify import COMPRESSED, Compression
from prologue.errors import InputError

MAX_OUTPUT: Final = 1 << 30
"""No kernel and no module is as big as this; what unpacks to more is not one."""

# A dictionary is allocated before anything is known of the data. The biggest that the kernel's build asks for have
# 128 MiB (scripts/xz_wrap.sh, 6.12; zstd -22 --ultra in scripts/Makefile.lib), so a damaged header gets no more.
_MAX_XZ_MEMORY: Final = 256 << 20
_MAX_ZSTD_WINDOW: Final = 128 << 20
# How much input goes in between two looks at the size of the output: a zstd block of 4 bytes may stand for 128 KiB,
# so the limit is overrun by 32 MiB at most.
_STEP: Final = 1 << 10


class _Decoder(Protocol):
    """A stream being unpacked."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes | memoryview, /) -> bytes: ...


_Decoding = tuple[_Decoder, type[Exception]]
"""A decoder and what it raises when the data are damaged."""


def compression(head: bytes) -> Compression | None:
    """Name the compression of a file that begins with ``head``; None if it is none that we know."""
    return next((kind for magic, kind in COMPRESSED if head.startswith(magic)), None)


def decompress(data: bytes, path: object, kind: str | None = None) -> bytes:
    """Unpack a file; its first bytes name the compression, unless ``kind`` does: lzma and zlib have no magic.

    Raises:
        InputError: none that we know, damaged, truncated, followed by something else, or bigger than ``MAX_OUTPUT``.

    """
    return b"".join(pieces(data, path, kind))


def pieces(data: bytes | mmap | memoryview, path: object, kind: str | None = None) -> Iterator[bytes]:
    """Yield a file's content piece by piece, if it is too big to be held twice; errors as of ``decompress``."""
    kind = kind or compression(bytes(data[:8]))
    if kind is None:
        raise InputError("is not compressed with gzip, xz or zstd: give it as it is", path=path)
    at, room = 0, MAX_OUTPUT
    while not at or (at < len(data) and not _is_padding(data, at, kind)):
        if at and not _begins_stream(bytes(data[at : at + 8]), kind):
            single = kind in ("lzma", "bzip2", "zlib")  # of one stream here
            after = f"after the end of the {kind} data" if single else f"that are not {kind} after its data"
            raise InputError(f"{len(data) - at} bytes {after}, at {at:#x}: damaged", path=path)
        at, room = yield from _stream(_decoding(kind), data, at, room, path)


def compress(data: bytes, kind: Compression) -> bytes:
    """Pack as ``make modules_install`` does (``scripts/Makefile.modinst``, the same options in 6.1 and 6.12).

    The same bytes always give the same file with the same zlib, liblzma or libzstd: no name, no time, one thread.
    """
    if kind == "gzip":
        # gzip -n: its default level is 6; a gzip header from zlib has neither name nor time.
        packer = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        return packer.compress(data) + packer.flush()
    if kind == "xz":
        # The kernel's xz decoder knows no check but CRC32 (lib/xz/xz_dec_stream.c).
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 1 << 20}]
        return lzma.compress(data, lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=filters)
    import zstandard

    # The zstd tool's defaults: level 3, with a checksum and, as its input is a file, the size.
    return zstandard.ZstdCompressor(level=3, write_checksum=True, write_content_size=True).compress(data)


def _decoding(kind: str) -> _Decoding:
    if kind == "gzip":
        return zlib.decompressobj(16 + zlib.MAX_WBITS), zlib.error
    if kind == "zlib":
        return zlib.decompressobj(), zlib.error
    if kind == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, _MAX_XZ_MEMORY), lzma.LZMAError
    if kind == "lzma":
        return lzma.LZMADecompressor(lzma.FORMAT_ALONE, _MAX_XZ_MEMORY), lzma.LZMAError
    if kind == "bzip2":
        import bz2

        return bz2.BZ2Decompressor(), OSError
    import zstandard

    decoder = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW).decompressobj()
    return decoder, zstandard.ZstdError


def _stream(
    decoding: _Decoding, data: bytes | mmap | memoryview, at: int, room: int, path: object
) -> Generator[bytes, None, tuple[int, int]]:
    """Yield what the stream at ``at`` unpacks to, ``room`` bytes at most; return where it ends, and the room left."""
    (decoder, damage), start = decoding, at
    while not decoder.eof:
        if at >= len(data):
            raise InputError(f"the compressed data that begin at {start:#x} do not end: truncated", path=path)
        try:
            piece = decoder.decompress(data[at : at + _STEP])
        except (damage, MemoryError) as error:
            raise InputError(f"damaged compressed data that begin at {start:#x} ({error})", path=path) from error
        at = min(at + _STEP, len(data))
        room -= len(piece)
        if room < 0:
            raise InputError(
                f"unpacks to more than {MAX_OUTPUT >> 20} MiB, more than any kernel or module has", path=path
            )
        yield piece
    return at - len(decoder.unused_data), room


def _is_padding(data: bytes | mmap | memoryview, at: int, kind: str) -> bool:
    """Return whether zeros follow that pad: tapes for gzip, and to units of 4 for xz (its format, "Stream Padding")."""
    if data[at] or kind not in ("gzip", "xz") or (kind == "xz" and (len(data) - at) % 4):
        return False
    return not bytes(data[at:]).strip(b"\0")


def _begins_stream(head: bytes, kind: str) -> bool:
    # A skippable frame (RFC 8878, 3.1.2) may stand among those of zstd.
    skippable = kind == "zstd" and head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5
    return skippable or compression(head) == kind
