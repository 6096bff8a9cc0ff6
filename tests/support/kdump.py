"""kdump-compressed dumps for tests, written with struct as makedumpfile writes them."""

from __future__ import annotations

import struct
import zlib

import zstandard

_HEADER = 424  # signature, version, utsname, time stamp


def kdump(start: int, memory: bytes, block: int, *, note: bytes = b"", flags: int = 1) -> bytes:
    """Physical memory from ``start`` on, in blocks, with a VMCOREINFO note; ``flags``: 0 plain, 1 zlib, 32 zstd."""
    assert start % block == 0
    first, count = start // block, -(-len(memory) // block)
    memory = memory.ljust(count * block, b"\0")
    bits = bytearray(-(-(first + count) // 8))
    for number in range(first, first + count):
        bits[number // 8] |= 1 << number % 8
    half = -(-len(bits) // block) * block
    head = (
        b"KDUMP   "
        + struct.pack("<I", 6)
        + b"".join(word.ljust(65, b"\0") for word in (b"Linux", b"board", b"6.1.0-mini", b"#1", b"aarch64", b""))
    )
    head = head.ljust(_HEADER, b"\0") + struct.pack("<8I", flags, block, 1, 2 * half // block, first + count, 0, 0, 0)
    at = (2 + 2 * half // block) * block + 24 * count
    sub = struct.pack("<QIIQQQQ", 0, 0, 0, 0, 0, at if note else 0, len(note)).ljust(136, b"\0")
    sub = sub[:80] + struct.pack("<QQQ", 0, 0, first + count)
    whole = bytearray(head.ljust(block, b"\0") + sub.ljust(block, b"\0"))
    whole += 2 * bytes(bits).ljust(half, b"\0")
    at += len(note)
    table, pages = b"", b""
    for k in range(count):
        data = memory[k * block : (k + 1) * block]
        if flags:
            data = zlib.compress(data) if flags == 1 else zstandard.compress(data)
        table += struct.pack("<QIIQ", at + len(pages), len(data), flags, 0)
        pages += data
    whole += table + note + pages
    return bytes(whole)
