"""Structs in BTF, the type information that kernels keep in their memory: sizes, and offsets of members.

Documentation/bpf/btf.rst (6.12). drgn 0.3 does not read BTF.
"""

from __future__ import annotations

import struct
from typing import Final

from prologue.errors import InputError

_HEADER: Final = struct.Struct("<HBBIIIII")
_TYPE: Final = struct.Struct("<III")
_MAGIC: Final = 0xEB9F
_STRUCT, _UNION, _TYPEDEF, _VOLATILE, _CONST, _RESTRICT, _TYPE_TAG = 4, 5, 8, 9, 10, 11, 18
_ALIASES: Final = (_TYPEDEF, _VOLATILE, _CONST, _RESTRICT, _TYPE_TAG)
# What follows the 12 bytes of a type, by kind (BTF_KIND_INT is 1): bytes, and bytes for each of its members.
_AFTER: Final = {
    1: (4, 0), 2: (0, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 7: (0, 0), 8: (0, 0), 9: (0, 0), 10: (0, 0),
    11: (0, 0), 12: (0, 0), 13: (0, 8), 14: (4, 0), 15: (0, 12), 16: (0, 0), 17: (4, 0), 18: (0, 0), 19: (0, 12),
}  # fmt: skip
_UNUSED: Final = 0x60FF0000  # bits of a type's info that have no meaning yet
_DEEPEST: Final = 32  # names for one type: more are a circle, of damaged information


class Btf:
    """The types of one kernel.

    Args:
        data: the section ``.BTF``, or what memory has from ``__start_BTF`` on.
        name: of the file or memory, for messages.

    Raises:
        InputError: it is damaged, or of a version that is not known.

    """

    def __init__(self, data: bytes, name: str) -> None:
        self._data, self._name = data, name
        if len(data) < _HEADER.size:
            raise self._damaged(f"{len(data)} bytes")
        magic, version, _, head, types, size, strings, strings_size = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != 1:
            raise self._damaged(f"magic {magic:#x}, version {version}")
        start, self._strings = head + types, head + strings
        if max(start + size, self._strings + strings_size) > len(data):
            raise self._damaged(f"it ends at {len(data):#x}")
        self._at = [0]  # of each type, by its id; 0 is void
        self._structs: dict[int, list[int]] = {}  # ids of structs and unions by the offset of their name
        self._walk(start, start + size)

    def _damaged(self, problem: str) -> InputError:
        return InputError(f"BTF is damaged, or of a version that is not known: {problem}", path=self._name)

    def _walk(self, start: int, end: int) -> None:
        data, places, unpack = self._data, self._at, _TYPE.unpack_from
        while start < end:
            name, info, _ = unpack(data, start) if start + _TYPE.size <= end else (0, _UNUSED, 0)
            kind = info >> 24 & 0x1F
            if kind not in _AFTER or info & _UNUSED:
                raise self._damaged(f"type {len(places)} has info {info:#x}")
            if kind in (_STRUCT, _UNION) and name:
                self._structs.setdefault(name, []).append(len(places))
            places.append(start)
            fixed, item_size = _AFTER[kind]
            start += _TYPE.size + fixed + item_size * (info & 0xFFFF)
        if start != end:
            raise self._damaged(f"its last type ends at {start:#x}, its types at {end:#x}")

    def size(self, name: str) -> int | None:
        """Return a struct's size in bytes; None if there is none of that name, or several of different sizes."""
        sizes = {_TYPE.unpack_from(self._data, self._at[number])[2] for number in self._named(name)}
        return sizes.pop() if len(sizes) == 1 else None

    def offset(self, path: str) -> int | None:
        """Return the bytes from the start of a struct to a member, such as ``kprobe.ainsn.api``.

        None if there is no such member, if it is a bit field, or if structs of that name have it in different places.
        """
        name, *members = path.split(".")
        offsets = {self._offset(number, members) for number in self._named(name)}
        return offsets.pop() if len(offsets) == 1 else None

    def _named(self, name: str) -> list[int]:
        types: list[int] = []
        place = self._data.find(f"\0{name}\0".encode(), self._strings)
        while place >= 0:
            types += self._structs.get(place + 1 - self._strings, [])
            place = self._data.find(f"\0{name}\0".encode(), place + 1)
        return types

    def _offset(self, number: int, members: list[str]) -> int | None:
        at = 0
        for member in members:
            offset_bits = self._member(number, member, set())
            if offset_bits is None:
                return None
            number, bits = offset_bits
            at += bits
        return at // 8 if at % 8 == 0 else None

    def _member(self, number: int, wanted: str, seen: set[int]) -> tuple[int, int] | None:
        """Return the type and the offset in bits of a member, also of one in an anonymous struct or union."""
        number = self._without_aliases(number)
        if not number:
            return None
        place = self._at[number]
        _, info, _ = _TYPE.unpack_from(self._data, place)
        if info >> 24 & 0x1F not in (_STRUCT, _UNION) or number in seen:
            return None
        seen.add(number)
        for k in range(info & 0xFFFF):
            name, kind, bits = _TYPE.unpack_from(self._data, place + 12 * (k + 1))
            width, bits = (bits >> 24, bits & 0xFFFFFF) if info >> 31 else (0, bits)
            if not name:
                inner = self._member(kind, wanted, seen)
                if inner is not None:
                    return inner[0], bits + inner[1]
            elif self._text(name) == wanted:
                return None if width else (kind, bits)
        return None

    def _without_aliases(self, number: int) -> int:
        """Resolve typedefs and qualifiers to their type; 0, which is no struct, if damage leads nowhere."""
        for _ in range(_DEEPEST):
            if not 0 < number < len(self._at):
                return 0
            _, info, of = _TYPE.unpack_from(self._data, self._at[number])
            if info >> 24 & 0x1F not in _ALIASES:
                return number
            number = of
        return 0

    def _text(self, offset: int) -> str:
        start = self._strings + offset
        end = self._data.find(b"\0", start)
        return self._data[start:end].decode("ascii", "replace") if end >= 0 else ""
