"""Words of an open file by their offsets: read and written in blocks, since a system call for each takes far longer.

The blocks go through one buffer, which stays in the processor's caches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import I64, U64
from prologue.elf.image import unaligned
from prologue.errors import PrologueError

_BLOCK: Final = 1 << 18  # bytes


def read_words(fd: int, offsets: I64, width: int) -> U64:
    """Read little-endian words of ``width`` (4 or 8) bytes; shape of ``offsets``, which need no order.

    Raises:
        PrologueError: the file ends before.
        OSError: it cannot be read.

    """
    result = np.zeros(len(offsets), np.uint64)
    for start, data, group in _blocks(fd, offsets, width):
        result[group] = unaligned(data, width)[offsets[group] - start]
    return result


def write_words(fd: int, offsets: I64, words: U64, width: int) -> None:
    """Write words where ``read_words`` would read them; what lies between is written as it was read.

    Raises:
        PrologueError, OSError: as ``read_words``; or it cannot be written. Part of the words may be.

    """
    for start, data, group in _blocks(fd, offsets, width):
        unaligned(data, width)[offsets[group] - start] = words[group]
        done = 0
        while done < len(data):  # a signal or a full disk may cut a write short
            done += os.pwrite(fd, data[done:], start + done)


def _blocks(fd: int, offsets: I64, width: int) -> Iterator[tuple[int, memoryview, I64]]:
    """Read every block of the file that has some of the words.

    Yields:
        The file offset of the first, the bytes from there through the last, and the indices of those in the block;
        the bytes are good until the next one.

    """
    if not len(offsets):
        return
    buffer = memoryview(bytearray(_BLOCK + width))
    order = np.argsort(offsets, kind="stable")
    number = offsets[order] // _BLOCK
    for group in np.split(order, np.flatnonzero(np.diff(number)) + 1):
        start, end = int(offsets[group[0]]), int(offsets[group[-1]]) + width
        data = buffer[: end - start]
        if os.preadv(fd, [data], start) != len(data):
            raise PrologueError(f"short read at file offset {start:#x}")
        yield start, data, group
