"""Headers of kdump-compressed dumps, checked before libkdumpfile, by which drgn reads them, maps the file.

Headers and page descriptors are those of makedumpfile (its ``IMPLEMENTATION``, "The kdump-compressed format", and
``diskdump_mod.h``). libkdumpfile dies of SIGBUS where a block is not in the file, and finds no memory where blocks are
not the kernel's pages.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Final

import numpy as np

from prologue.elf.files import open_regular
from prologue.errors import InputError

MAGIC: Final = b"KDUMP   "
FLATTENED: Final = b"makedumpfile\0\0\0\0"
# Of struct disk_dump_header, from block_size on: block_size, sub_hdr_size, bitmap_blocks.
_SIZES_AT, _SIZES = 428, struct.Struct("<III")
# Of kdump_sub_header: whether pages are in several files; offset and size of VMCOREINFO.
_SPLIT_AT, _INFO_AT, _SPAN = 12, 32, struct.Struct("<QQ")
_PAGE: Final = np.dtype([("offset", "<u8"), ("size", "<u4"), ("flags", "<u4"), ("page_flags", "<u8")])
_LARGEST: Final = 1 << 20  # bytes of a block
_AS_ELF: Final = "dump it as ELF (QEMU: dump-guest-memory without -z; libvirt: --format elf)"


def read_kdump_header(path: Path) -> bytes:
    """Check that a dump is whole, and that its blocks are the kernel's pages; return its VMCOREINFO.

    Raises:
        InputError: it is flattened, split, damaged or cut off, has no VMCOREINFO, or other blocks, as those of QEMU.

    """
    with open_regular(path) as (fd, _), mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
        if data[:16] == FLATTENED:
            raise InputError(f"is flattened: first run `makedumpfile -R NEW <{path.name}`, or {_AS_ELF}", path=path)
        block, subs, bitmaps = _SIZES.unpack(_part(data, _SIZES_AT, _SIZES.size, path))
        if not 0 < block <= _LARGEST or subs * block > len(data):
            raise InputError(f"damaged dump: blocks of {block} bytes", path=path)
        if any(_part(data, block + _SPLIT_AT, 4, path)):
            raise InputError("is one file of a split dump: join them with makedumpfile --reassemble", path=path)
        at, size = _SPAN.unpack(_part(data, block + _INFO_AT, _SPAN.size, path))
        info = _part(data, at, size, path)
        if f"\nPAGESIZE={block}\n".encode() not in info:
            what = f"has no VMCOREINFO, or blocks of {block:,} bytes, which are not the kernel's pages"
            raise InputError(f"{what}: {_AS_ELF}", path=path)
        half = bitmaps * block // 2
        count = int.from_bytes(_part(data, (1 + subs) * block + half, half, path), "little").bit_count()
        pages = np.frombuffer(_part(data, (1 + subs + bitmaps) * block, count * _PAGE.itemsize, path), _PAGE)
        room, start = len(data), pages["offset"]
        beyond = int(((start > room) | (pages["size"] > room - np.minimum(start, room))).sum())
        if beyond:
            raise InputError(f"{beyond:,} of its {count:,} blocks are not in the file: truncated", path=path)
        return info


def _part(data: mmap.mmap, offset: int, size: int, path: Path) -> bytes:
    part = data[offset : offset + size]
    if len(part) < size:
        raise InputError(f"{len(part)} of {size} bytes at {offset:#x} of the dump: truncated", path=path)
    return part
