"""The smallest arm64 ELF with given sections: no compiler needed."""

from __future__ import annotations

import struct


def tiny_elf(sections: dict[str, tuple[int, bytes]]) -> bytes:
    """An ET_DYN whose sections ``name: (address, bytes)`` are allocated PROGBITS (RELR by name)."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in sections) + b".shstrtab\0"
    body, headers, at = b"", [b"\0" * 64], 64
    for name, (vaddr, data) in sections.items():
        kind = 19 if name == ".relr.dyn" else 1
        headers.append(
            struct.pack("<IIQQQQIIQQ", names.index(name.encode()), kind, 2, vaddr, at, len(data), 0, 0, 8, 0)
        )
        padded = data + b"\0" * (-len(data) % 8)
        body, at = body + padded, at + len(padded)
    headers.append(struct.pack("<IIQQQQIIQQ", names.index(b".shstrtab"), 3, 0, 0, at, len(names), 0, 0, 1, 0))
    body += names + b"\0" * (-len(names) % 8)
    ident = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    count = len(headers)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, 183, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64, count, count - 1)
    return header + body + b"".join(headers)
