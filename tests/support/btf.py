"""Type ids of functions in a kernel's BTF (Documentation/bpf/btf.rst, 6.12)."""

from __future__ import annotations

import struct
from typing import Final

_HEADER: Final = struct.Struct("<HBBIIIII")
_MAGIC, _FUNC = 0xEB9F, 12
# What follows the 12 bytes of a type, by kind: bytes, and bytes for each of its members.
_AFTER: Final = {
    1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0), 15: (0, 12), 17: (4, 0),
    19: (0, 12),
}  # fmt: skip


def function_ids(btf: bytes, names: set[str]) -> dict[str, int]:
    """Ids of the functions of those names that there are."""
    magic, _, _, head, types, size, strings, _ = _HEADER.unpack_from(btf)
    assert magic == _MAGIC
    found, at, number = {}, head + types, 0
    while at < head + types + size:
        number += 1
        name, info, _ = struct.unpack_from("<III", btf, at)
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        if kind == _FUNC:
            start = head + strings + name
            text = btf[start : btf.index(b"\0", start)].decode()
            if text in names:
                found[text] = number
        fixed, each = _AFTER.get(kind, (0, 0))
        at += 12 + fixed + each * members
    return found


def made_btf(structs: dict[str, tuple[int, list[tuple[str, str, int]]]]) -> bytes:
    """BTF of structs: size, and members as (name, type, byte offset); a type is another struct, or empty for a number.

    A member whose name is empty is an anonymous struct.
    """
    texts = bytearray(b"\0")
    places = {"": 0}

    def text(name: str) -> int:
        if name not in places:
            places[name] = len(texts)
            texts.extend(name.encode() + b"\0")
        return places[name]

    ids = {"": 1} | {name: number for number, name in enumerate(structs, 2)}
    types = struct.pack("<IIII", text("long"), 1 << 24, 8, 64)
    for name, (size, members) in structs.items():
        types += struct.pack("<III", 0 if name.startswith("anonymous") else text(name), 4 << 24 | len(members), size)
        for member, kind, offset in members:
            types += struct.pack("<III", text(member), ids[kind], offset * 8)
    header = _HEADER.pack(_MAGIC, 1, 0, _HEADER.size, 0, len(types), len(types), len(texts))
    return header + types + bytes(texts)
