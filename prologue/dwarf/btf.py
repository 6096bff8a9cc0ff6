"""BTF, the type information that kernels keep in their memory: structs, functions and variables by their names.

Documentation/bpf/btf.rst (6.12). drgn 0.3 does not read BTF.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from prologue.errors import InputError

_HEADER: Final = struct.Struct("<HBBIIIII")
_TYPE: Final = struct.Struct("<III")
_MAGIC: Final = 0xEB9F


class BtfKind(IntEnum):
    """Kinds of types (BTF_KIND_..., include/uapi/linux/btf.h, 6.12)."""

    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19


@dataclass(frozen=True, slots=True, kw_only=True)
class BtfType:
    """A type as BTF has it: ``value`` is its size in bytes, or the number of the type that it refers to.

    ``items`` are what follows it, as numbers of 32 bits: members, parameters or enumerators, each a tuple; names among
    them are offsets for ``text``. ``flag`` is the kind flag: of a struct, whether members have widths; of an
    enumeration, whether it is signed; of a forward declaration, whether it is of a union.
    """

    kind: BtfKind
    name: str
    value: int
    flag: bool
    items: tuple[tuple[int, ...], ...]


_ALIASES: Final = (BtfKind.TYPEDEF, BtfKind.VOLATILE, BtfKind.CONST, BtfKind.RESTRICT, BtfKind.TYPE_TAG)
# What follows the 12 bytes of a type, by kind (BTF_KIND_INT is 1): bytes, and bytes for each of its members.
_AFTER: Final = {
    1: (4, 0), 2: (0, 0), 3: (12, 0), 4: (0, 12), 5: (0, 12), 6: (0, 8), 7: (0, 0), 8: (0, 0), 9: (0, 0), 10: (0, 0),
    11: (0, 0), 12: (0, 0), 13: (0, 8), 14: (4, 0), 15: (0, 12), 16: (0, 0), 17: (4, 0), 18: (0, 0), 19: (0, 12),
}  # fmt: skip
_NAMED_ITEMS: Final = (BtfKind.STRUCT, BtfKind.UNION, BtfKind.ENUM, BtfKind.FUNC_PROTO, BtfKind.ENUM64)
_UNUSED: Final = 0x60FF0000  # bits of a type's info that have no meaning yet
_DEEPEST: Final = 32  # names for one type: more are a circle, of damaged information


class Btf:
    """The types of one kernel, or of one of its modules.

    Args:
        data: the section ``.BTF``, or what memory has from ``__start_BTF`` on.
        name: of the file or memory, for messages.
        base: the kernel's, for a module's: numbers of types and offsets of strings go on from there, and what is looked
            up by its name is the module's own.

    Raises:
        InputError: it is damaged, of a version that is not known, or a module's that was made with another base.

    """

    def __init__(self, data: bytes, name: str, base: Btf | None = None) -> None:
        self._data, self._name, self._base = data, name, base
        if len(data) < _HEADER.size:
            raise self._damaged(f"{len(data)} bytes")
        magic, version, _, head, types, size, strings, strings_size = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != 1:
            raise self._damaged(f"magic {magic:#x}, version {version}")
        start, self._strings = head + types, head + strings
        if max(start + size, self._strings + strings_size) > len(data):
            raise self._damaged(f"it ends at {len(data):#x}")
        self._first, self._first_string = (0, 0) if base is None else (base.count, base.strings_end)
        self.strings_end: int = self._first_string + strings_size  # the offset after the last string
        self._at = [0] if base is None else []  # of each type, by its id from the first on; 0 is void
        # Ids of structs and unions, of functions, of variables, and of typedefs, by the offset of their name.
        self._structs: dict[int, list[int]] = {}
        self._functions: dict[int, list[int]] = {}
        self._variables: dict[int, list[int]] = {}
        self._typedefs: dict[int, list[int]] = {}
        self._walk(start, start + size)
        if base is not None:
            self._check_names()

    @property
    def count(self) -> int:
        """Number of types, void and the base's included."""
        return self._first + len(self._at)

    def _damaged(self, problem: str) -> InputError:
        return InputError(f"BTF is damaged, or of a version that is not known: {problem}", path=self._name)

    def _walk(self, start: int, end: int) -> None:
        data, places, unpack, first = self._data, self._at, _TYPE.unpack_from, self._first
        named = {BtfKind.STRUCT: self._structs, BtfKind.UNION: self._structs, BtfKind.FUNC: self._functions,
                 BtfKind.VAR: self._variables, BtfKind.TYPEDEF: self._typedefs}  # fmt: skip
        while start < end:
            name, info, _ = unpack(data, start) if start + _TYPE.size <= end else (0, _UNUSED, 0)
            kind = info >> 24 & 0x1F
            if kind not in _AFTER or info & _UNUSED:
                raise self._damaged(f"type {first + len(places)} has info {info:#x}")
            if kind in named and name:
                named[kind].setdefault(name, []).append(first + len(places))
            places.append(start)
            fixed, item_size = _AFTER[kind]
            start += _TYPE.size + fixed + item_size * (info & 0xFFFF)
        if start != end:
            raise self._damaged(f"its last type ends at {start:#x}, its types at {end:#x}")

    def _check_names(self) -> None:
        """Raise an InputError unless each name begins where a string does.

        With another base the offsets of strings are others. Nothing else in BTF says which base it was made with.
        """
        names = []
        for place in self._at:
            name, info, _ = _TYPE.unpack_from(self._data, place)
            names.append(name)
            if info >> 24 & 0x1F in _NAMED_ITEMS:
                first = place + _TYPE.size
                size = _AFTER[info >> 24 & 0x1F][1]
                items = self._data[first : first + size * (info & 0xFFFF)]
                names += [item[0] for item in struct.iter_unpack(f"<{size // 4}I", items)]
        if not all(self._begins(name) for name in names):
            raise InputError("its BTF was made with another kernel's: name its own kernel", path=self._name)

    def _begins(self, offset: int) -> bool:
        """Return whether a string begins at an offset in the table of strings."""
        if self._base is not None and offset < self._first_string:
            return self._base._begins(offset)
        start = self._strings + offset - self._first_string
        return offset < self.strings_end and (offset == self._first_string or not self._data[start - 1])

    def size(self, name: str) -> int | None:
        """Return a struct's size in bytes; None if there is none of that name, or several of different sizes."""
        sizes = {self.type(number).value for number in self._named(name, self._structs)}
        return sizes.pop() if len(sizes) == 1 else None

    def offset(self, path: str) -> int | None:
        """Return the bytes from the start of a struct to a member, such as ``kprobe.ainsn.api``.

        None if there is no such member, if it is a bit field, or if structs of that name have it in different places.
        """
        name, *members = path.split(".")
        offsets = {self._offset(number, members) for number in self._named(name, self._structs)}
        return offsets.pop() if len(offsets) == 1 else None

    def function(self, name: str) -> int | None:
        """Return the type of a function (a FUNC_PROTO); None if there is none of that name, or several.

        Raises:
            InputError: BTF has another type for it.

        """
        number = self._only(name, self._functions)
        if number is not None and self.type(number).kind != BtfKind.FUNC_PROTO:
            raise self._damaged(f"type {number} is not a function prototype")
        return number

    def variable(self, name: str) -> int | None:
        """Return the type of a global variable; None if there is none of that name, or several."""
        return self._only(name, self._variables)

    def typedef(self, name: str) -> int | None:
        """Return the type that a typedef names; None if there is none of that name, or several."""
        return self._only(name, self._typedefs)

    def member(self, struct: str, member: str) -> int | None:
        """Return the type of a struct's member; None if there is none, or several structs of that name."""
        numbers = self._named(struct, self._structs)
        placed = self._member(numbers[0], member, set()) if len(numbers) == 1 else None
        return None if placed is None else placed[0]

    def parameters(self, number: int | None) -> tuple[str, ...] | None:
        """Return the kind of each parameter of a function, or of what a pointer to one leads to; None for another type.

        ``4`` is a number of four bytes, ``*file`` a pointer to that struct, ``*`` another pointer.
        """
        type_ = self.type(self._without_aliases(number or 0))
        if type_.kind == BtfKind.PTR:
            type_ = self.type(self._without_aliases(type_.value))
        if type_.kind != BtfKind.FUNC_PROTO:
            return None
        return tuple(self._parameter_kind(kind) for _, kind in type_.items)

    def _parameter_kind(self, number: int) -> str:
        type_ = self.type(self._without_aliases(number))
        if type_.kind != BtfKind.PTR:
            return (f"{type_.name} of " if type_.kind in (BtfKind.STRUCT, BtfKind.UNION) else "") + f"{type_.value}"
        target = self.type(self._without_aliases(type_.value))
        return f"*{target.name}" if target.kind in (BtfKind.STRUCT, BtfKind.UNION, BtfKind.FWD) else "*"

    def _only(self, name: str, types: dict[int, list[int]]) -> int | None:
        numbers = self._named(name, types)
        return self.type(numbers[0]).value if len(numbers) == 1 else None

    def type(self, number: int) -> BtfType:
        """Read a type by its number; 0 is void.

        Raises:
            InputError: no such type.

        """
        if not number:
            return BtfType(kind=BtfKind.VOID, name="", value=0, flag=False, items=())
        if self._base is not None and number < self._first:
            return self._base.type(number)
        if not self._first <= number < self.count:
            raise self._damaged(f"type {number} of {self.count}")
        place = self._at[number - self._first]
        name, info, value = _TYPE.unpack_from(self._data, place)
        kind, count = BtfKind(info >> 24 & 0x1F), info & 0xFFFF
        fixed, item_size = _AFTER[kind]
        size, count = (item_size, count) if item_size else (fixed, int(fixed > 0))
        after = self._data[place + _TYPE.size : place + _TYPE.size + size * count]
        items = tuple(struct.iter_unpack(f"<{size // 4}I", after)) if after else ()
        return BtfType(kind=kind, name=self.text(name), value=value, flag=bool(info >> 31), items=items)

    def _named(self, name: str, by_name: dict[int, list[int]]) -> list[int]:
        return [number for place in self._string_offsets(name) for number in by_name.get(place, ())]

    def _string_offsets(self, name: str) -> Iterator[int]:
        """Yield each offset of a string in the table of strings."""
        if self._base is not None:
            yield from self._base._string_offsets(name)
        text = name.encode() + b"\0"
        if self._data.startswith(text, self._strings):  # no zero is before a module's first
            yield self._first_string
        place = self._data.find(b"\0" + text, self._strings)
        while place >= 0:
            yield self._first_string + place + 1 - self._strings
            place = self._data.find(b"\0" + text, place + 1)

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
        type_ = self.type(number)
        if type_.kind not in (BtfKind.STRUCT, BtfKind.UNION) or number in seen:
            return None
        seen.add(number)
        for name, kind, place in type_.items:
            width, bits = (place >> 24, place & 0xFFFFFF) if type_.flag else (0, place)
            if not name:
                inner = self._member(kind, wanted, seen)
                if inner is not None:
                    return inner[0], bits + inner[1]
            elif self.text(name) == wanted:
                return None if width else (kind, bits)
        return None

    def _without_aliases(self, number: int) -> int:
        """Resolve typedefs and qualifiers to their type; 0, which is no struct, if damage leads nowhere."""
        for _ in range(_DEEPEST):
            if not 0 < number < self.count:
                return 0
            type_ = self.type(number)
            if type_.kind not in _ALIASES:
                return number
            number = type_.value
        return 0

    def text(self, offset: int) -> str:
        """Return the string at an offset in the table of strings; empty if there is none."""
        if self._base is not None and offset < self._first_string:
            return self._base.text(offset)
        start = self._strings + offset - self._first_string
        end = self._data.find(b"\0", start)
        return self._data[start:end].decode("ascii", "replace") if end >= 0 else ""
