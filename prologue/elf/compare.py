"""Compares files and parts of them, a piece at a time: neither has to be in memory."""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import I64
from prologue.elf.image import U8, ElfImage

_CHUNK: Final = 1 << 20  # bytes compared at once


def differing_bytes(ours: U8, theirs: U8) -> I64:
    """Return the ascending indices of the bytes that differ; both have shape (n,)."""
    parts = [np.zeros(0, np.int64)]
    for start in range(0, len(ours), _CHUNK):
        part = slice(start, start + _CHUNK)
        parts.append(np.flatnonzero(ours[part] != theirs[part]) + start)
    return np.concatenate(parts)


def differing_files(before: ElfImage, after: ElfImage, size: int) -> I64:
    """Return the ascending file offsets of the bytes that differ among the first ``size`` of two files.

    Pages of a mapped file count as this process's memory once they were looked at, so they are dropped at once.
    """
    ours, theirs = (np.frombuffer(image.content, np.uint8, size) for image in (before, after))
    parts = [np.zeros(0, np.int64)]
    for start in range(0, size, _CHUNK):
        part = slice(start, start + _CHUNK)
        parts.append(np.flatnonzero(ours[part] != theirs[part]) + start)
        before.drop_pages(start, _CHUNK)
        after.drop_pages(start, _CHUNK)
    return np.concatenate(parts)
