"""``prologue.open``."""

from __future__ import annotations

import os
from pathlib import Path

from prologue.kernel.binary import Binary
from prologue.kernel.kernel import Kernel
from prologue.kernel.load import open_binary
from prologue.kernel.module import Module

FileName = str | os.PathLike[str]
File = FileName | Kernel | Module
"""A file's name, or what ``open`` returned."""


def open(path: FileName) -> Kernel | Module:  # noqa: A001 - as gzip.open and tarfile.open: users write prologue.open
    """Open a vmlinux or a kernel module to read it; either may be compressed with gzip, xz or zstd.

    Tables are read when their properties are first used. What scripts use most:

    * ``path``, ``release`` (as ``uname -r``), ``build_id`` (hex), ``layout`` ("2" or "4,2"), ``state`` ("untouched",
      "processed", "unfinished", "mixed" or "no sites"); of a kernel ``contract`` ("native" or "stock")
    * ``sites``: a ``Sites``, None without a readable table: arrays of shape (n,), a site for each record; addresses
      are uint64 and link-time, words uint32: ``first``, ``second``, ``entry``, ``word0``, ``word1``, ``has_mov``, ...
    * ``records``: all records in table order, arrays of shape (m,); ``sites.record`` (int64) has their indices
    * ``symbols.find(name)``: a symbol with ``vaddr`` and ``size`` (bytes), or None; ``symbols.locate(vaddr)``: a
      ``Location``
    * ``text.words(vaddrs)``: the 32-bit instruction at each address, shape of ``vaddrs``; 0 outside of the text

    Addresses in a module are made up: they differ within the file, and mean nothing outside of it.

    Raises:
        InputError: not an arm64 vmlinux or module with symbols, damaged, or a boot file made from a vmlinux.

    """
    return open_binary(Path(path), unpack=True)


def opened(source: File) -> Kernel | Module:
    """Open a file, unless it is open."""
    return source if isinstance(source, Binary) else open(source)


def path_of(source: File) -> Path:
    """Return the path of a file, open or not."""
    return source.path if isinstance(source, Binary) else Path(source)
