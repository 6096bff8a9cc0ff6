"""Physical memory in kdump-compressed dumps, also those whose blocks are not the kernel's pages: QEMU's for arm64.

QEMU (``dump/dump.c``, 6.2-9.0) takes blocks of 64 KiB whatever the kernel's pages are, and flattens the file;
libkdumpfile, by which drgn reads such dumps, takes blocks for pages and finds nothing. The format is that of
makedumpfile (its ``IMPLEMENTATION``, "The kdump-compressed format", and ``diskdump_mod.h``).
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from prologue.arrays import I64, runs_of
from prologue.elf.files import open_regular
from prologue.errors import InputError
from prologue.live.memory.ranges import PAGE, Range

MAGIC: Final = b"KDUMP   "
FLATTENED: Final = b"makedumpfile\0\0\0\0"
# Of struct disk_dump_header, from block_size on: block_size, sub_hdr_size, bitmap_blocks.
_SIZES_AT, _SIZES = 428, struct.Struct("<III")
# Of kdump_sub_header: whether pages are in several files; offset and size of VMCOREINFO, and of an ELF core's notes.
_SPLIT_AT, _SPLIT = 12, struct.Struct("<I")
_INFO_AT, _NOTES_AT, _SPAN = 32, 48, struct.Struct("<QQ")
_FLAT_HEADER: Final = 4096
_FLAT: Final = struct.Struct(">qq")  # offset in the whole file, size; both -1 at the end
_PAGE = np.dtype([("offset", "<u8"), ("size", "<u4"), ("flags", "<u4"), ("page_flags", "<u8")])
_ZLIB, _ZSTD = 1, 32
_MOST: Final = 1 << 26  # bytes of headers, and of a bitmap, that are read at once
_LARGEST: Final = 1 << 20  # bytes of a block
_CACHED: Final = 256  # blocks


class CompressedDump:
    """Blocks of physical memory.

    Args:
        path: the file, flattened or not.

    Raises:
        InputError: it is damaged or cut off.

    """

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        with open_regular(path) as (fd, _):
            self._file = mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
        self._flat = self._index() if self._file[:16] == FLATTENED else None
        self.block, subs, bitmaps = _SIZES.unpack(self._pread(_SIZES_AT, _SIZES.size))
        if self.block % PAGE or not PAGE <= self.block <= _LARGEST or subs * self.block > _MOST:
            raise InputError(f"damaged dump: blocks of {self.block} bytes", path=path)
        if any(_SPLIT.unpack(self._pread(self.block + _SPLIT_AT, _SPLIT.size))):
            raise InputError("is one file of a split dump: join them with makedumpfile --reassemble", path=path)
        numbers = self._marked((1 + subs) * self.block + bitmaps * self.block // 2, bitmaps * self.block // 2)
        table = self._pread((1 + subs + bitmaps) * self.block, len(numbers) * _PAGE.itemsize)
        pages = np.frombuffer(table, _PAGE)
        # When its disk is full, makedumpfile leaves the places of further blocks 0.
        written = pages["offset"] != 0
        self._numbers, self._pages = numbers[written], pages[written]
        if self._flat is None:
            self._require_blocks()
        self.vmcoreinfo, self.notes = self._named(_INFO_AT), self._named(_NOTES_AT)
        self._content = lru_cache(_CACHED)(self._decompress)

    def _named(self, field: int) -> bytes:
        """Read what the sub-header has the place of; empty if it has none."""
        at, size = _SPAN.unpack(self._pread(self.block + field, _SPAN.size))
        return self._pread(at, size) if 0 < size <= _MOST else b""

    def _marked(self, start: int, size: int) -> I64:
        """Return the numbers of the blocks that a bitmap says are there: it has a bit up to the last address of RAM."""
        numbers = [np.zeros(0, np.int64)]
        for at in range(0, size, _MOST):
            bits = np.frombuffer(self._pread(start + at, min(_MOST, size - at)), np.uint8)
            used = np.flatnonzero(bits)
            row, bit = np.nonzero(np.unpackbits(bits[used, None], axis=1, bitorder="little"))
            numbers.append((at + used[row]) * 8 + bit)
        return np.concatenate(numbers)

    def _require_blocks(self) -> None:
        """Check that all blocks are in the file: libkdumpfile maps it, and dies of SIGBUS if it ends too early."""
        room, start, size = len(self._file), self._pages["offset"], self._pages["size"]
        beyond = int(((start > room) | (size > room - np.minimum(start, room))).sum())
        if beyond:
            raise InputError(f"{beyond:,} of its {len(start):,} blocks are not in the file: truncated", path=self.name)

    def _index(self) -> tuple[I64, I64, I64]:
        """Return offset in the whole file, size, and place in this file of every piece of a flattened dump."""
        blocks: list[tuple[int, int, int]] = []
        at = _FLAT_HEADER
        while at + _FLAT.size <= len(self._file):
            offset, size = _FLAT.unpack_from(self._file, at)
            if offset < 0 or size < 0:
                starts, sizes, places = np.array(blocks, np.int64).reshape(-1, 3).T
                return starts, sizes, places
            blocks.append((offset, size, at + _FLAT.size))
            at += _FLAT.size + size
        raise InputError("a flattened dump without its end: truncated", path=self.name)

    def _pread(self, offset: int, size: int) -> bytes:
        if self._flat is None:
            data = bytearray(self._file[offset : offset + size])
            filled = len(data)
        else:
            starts, sizes, places = self._flat
            data, covered = bytearray(size), bytearray(size)  # a later piece may replace an earlier one
            for k in np.flatnonzero((starts < offset + size) & (starts + sizes > offset)).tolist():
                low, high = max(offset, int(starts[k])), min(offset + size, int(starts[k] + sizes[k]))
                place = int(places[k]) + low - int(starts[k])
                data[low - offset : high - offset] = self._file[place : place + high - low]
                covered[low - offset : high - offset] = b"\1" * (high - low)
            filled = covered.count(1)
        if filled < size:
            raise InputError(f"{filled} of {size} bytes at {offset:#x} of the dump: truncated", path=self.name)
        return bytes(data)

    @property
    def is_known(self) -> bool:
        """True if ``read`` knows how every block is compressed."""
        return bool(np.isin(self._pages["flags"], (0, _ZLIB, _ZSTD)).all())

    @property
    def ranges(self) -> Iterator[Range]:
        """Physical addresses of the memory that is there, ascending and apart."""
        for run in runs_of(self._numbers):
            yield Range(int(run[0]) * self.block, len(run) * self.block)

    @property
    def blocks(self) -> Iterator[bytes]:
        """The content of every block; one after another of zeros counts once."""
        before = -1
        for row, offset in enumerate(self._pages["offset"].tolist()):
            if offset != before:
                yield self._content(row)
            before = offset

    def read(self, paddr: int, size: int) -> bytes:
        """Read memory by physical address; all of it has to be in ``ranges``.

        Raises:
            InputError: the dump is damaged, or compressed in a way that is not known.

        """
        first = int(np.searchsorted(self._numbers, paddr // self.block))
        count = (paddr % self.block + size - 1) // self.block + 1
        data = b"".join(self._content(row) for row in range(first, first + count))
        return data[paddr % self.block :][:size]

    def _decompress(self, row: int) -> bytes:
        offset, size, flags, _ = self._pages[row].tolist()
        if size > 2 * self.block:
            raise InputError(f"damaged dump: a block of {size} bytes", path=self.name)
        data = self._pread(offset, size)
        import zstandard

        try:
            if flags == _ZLIB:
                data = zlib.decompressobj().decompress(data, self.block)
            elif flags == _ZSTD:
                data = zstandard.ZstdDecompressor().stream_reader(data).read(self.block)
            elif flags:
                raise InputError(
                    f"is compressed with neither zlib nor zstd (flags {flags:#x}): dump it as kdump-zlib or as ELF",
                    path=self.name,
                )
        except (zlib.error, zstandard.ZstdError, ValueError) as error:
            raise InputError(f"damaged dump: {error}", path=self.name) from error
        if len(data) != self.block:
            raise InputError(f"damaged dump: a block has {len(data)} of {self.block} bytes", path=self.name)
        return data
