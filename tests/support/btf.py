"""Type ids in a kernel's BTF (Documentation/bpf/btf.rst, 6.12)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

_HEADER: Final = struct.Struct("<HBBIIIII")
_MAGIC: Final = 0xEB9F
FUNCTION: Final = 12
TYPEDEF: Final = 8
# What follows the 12 bytes of a type, by kind: bytes, and bytes for each of its members.
_AFTER: Final = {
    1: (4, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 13: (0, 8), 14: (4, 0), 15: (0, 12), 17: (4, 0),
    19: (0, 12),
}  # fmt: skip


def type_ids(btf: bytes, names: set[str], wanted: int = FUNCTION) -> dict[str, int]:
    """Ids of the functions of those names that there are, or of types of another kind."""
    magic, _, _, head, types, size, strings, _ = _HEADER.unpack_from(btf)
    assert magic == _MAGIC
    found, at, number = {}, head + types, 0
    while at < head + types + size:
        number += 1
        name, info, _ = struct.unpack_from("<III", btf, at)
        kind, members = info >> 24 & 0x1F, info & 0xFFFF
        if kind == wanted:
            start = head + strings + name
            text = btf[start : btf.index(b"\0", start)].decode()
            if text in names:
                found[text] = number
        fixed, each = _AFTER.get(kind, (0, 0))
        at += 12 + fixed + each * members
    return found


class BtfMaker:
    """Makes BTF type by type, also a module's, which goes on after its ``base``; ``add`` returns the number of each."""

    def __init__(self, base: BtfMaker | None = None) -> None:
        self._texts = bytearray(b"\0" if base is None else b"")
        self._places: dict[str, int] = {"": 0} if base is None else dict(base._places)
        self._types = b""
        self._count: int = 0 if base is None else base._count
        self._before: int = 0 if base is None else base._before + len(base._texts)

    def text(self, name: str) -> int:
        """The offset of a string."""
        if name not in self._places:
            self._places[name] = self._before + len(self._texts)
            self._texts += name.encode() + b"\0"
        return self._places[name]

    def add(self, kind: int, name: str, value: int, *items: Sequence[int], flag: bool = False) -> int:
        """A type, and the numbers that follow it; those of INT, ARRAY and VAR are not counted."""
        count = 0 if kind in (1, 3, 14) else len(items)
        self._types += struct.pack("<III", self.text(name), flag << 31 | kind << 24 | count, value)
        self._types += b"".join(struct.pack(f"<{len(item)}I", *item) for item in items)
        self._count += 1
        return self._count

    def done(self) -> bytes:
        """The whole section."""
        size = len(self._types)
        header = _HEADER.pack(_MAGIC, 1, 0, _HEADER.size, 0, size, size, len(self._texts))
        return header + self._types + bytes(self._texts)


def made_btf(structs: dict[str, tuple[int, list[tuple[str, str, int]]]]) -> bytes:
    """BTF of structs: size, and members as (name, type, byte offset); a type is another struct, or empty for a number.

    A member whose name is empty is an anonymous struct.
    """
    made = BtfMaker()
    ids = {"": made.add(1, "long", 8, (64,))} | {name: number for number, name in enumerate(structs, 2)}
    for name, (size, members) in structs.items():
        items = [(made.text(member), ids[kind], offset * 8) for member, kind, offset in members]
        made.add(4, "" if name.startswith("anonymous") else name, size, *items)
    return made.done()
