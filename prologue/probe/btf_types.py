"""C types of BTF's types (Documentation/bpf/btf.rst, 6.12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.dwarf.btf import Btf, BtfKind, BtfType
from prologue.dwarf.c_types import VOID, CType, Member, array_of, pointer_to

_QUALIFIERS: Final = {
    BtfKind.CONST: "const ",
    BtfKind.VOLATILE: "volatile ",
    BtfKind.RESTRICT: "",
    BtfKind.TYPE_TAG: "",
}
_TAGS: Final = {
    BtfKind.STRUCT: "struct", BtfKind.UNION: "union", BtfKind.ENUM: "enum", BtfKind.ENUM64: "enum",
}  # fmt: skip
_UNNAMED: Final = (BtfKind.PTR, BtfKind.ARRAY, BtfKind.FUNC_PROTO)  # made of other types' names
_SIGNED: Final = 1  # BTF_INT_SIGNED
_DEEPEST: Final = 32  # names for one type: more are a circle, of damaged information


def c_type_of_btf(btf: Btf, number: int, depth: int = 0, inside: frozenset[int] = frozenset()) -> CType:
    """Read the type of that number; each type behind a pointer or in a struct is read when it is asked for.

    ``depth`` counts the types on the way to it, ``inside`` has the structs that it is a part of: in damaged BTF a type
    may lead to itself, and is void then.

    Raises:
        InputError: BTF is damaged.

    """
    name, qualifiers, own = "", "", btf.type(number)
    while (own.kind in _QUALIFIERS or own.kind == BtfKind.TYPEDEF) and depth <= _DEEPEST:
        depth, number = depth + 1, own.value
        if own.kind == BtfKind.TYPEDEF:
            name = name or own.name
        elif not name:
            qualifiers += _QUALIFIERS[own.kind]
        own = btf.type(number)
    if depth > _DEEPEST or number in inside:
        return VOID
    if not name and own.kind not in _UNNAMED:
        tag = ("union" if own.flag else "struct") if own.kind == BtfKind.FWD else _TAGS.get(own.kind, "")
        name = qualifiers + f"{tag} {own.name}".strip()
    if own.kind in (BtfKind.STRUCT, BtfKind.UNION):
        within = inside | {number}
        return CType(kind="struct", name=name, size=own.value, find_members=lambda: tuple(_members(btf, own, within)))
    if own.kind == BtfKind.ARRAY:
        element, _, count = own.items[0]
        return array_of(c_type_of_btf(btf, element, depth + 1, inside), count, name)
    return _of_kind(btf, own, name, depth)


def _of_kind(btf: Btf, own: BtfType, name: str, depth: int) -> CType:
    """Make a type that has no parts; ``name`` is empty if it is made of another type's name."""
    if own.kind == BtfKind.INT:
        return CType(kind="int", name=name, size=own.value, signed=bool(own.items[0][0] >> 24 & _SIGNED))
    if own.kind in (BtfKind.ENUM, BtfKind.ENUM64):
        return CType(
            kind="int", name=name, size=own.value, signed=own.flag, find_enumerators=lambda: _enumerators(btf, own)
        )
    if own.kind == BtfKind.PTR:
        target = own.value
        return pointer_to(lambda: c_type_of_btf(btf, target), c_type_of_btf(btf, target, depth + 1).name, name)
    if own.kind == BtfKind.FWD:
        return CType(kind="struct", name=name)
    if own.kind == BtfKind.FUNC_PROTO:
        return CType(kind="function", name=name or "function", find_target=lambda: c_type_of_btf(btf, own.value))
    if own.kind == BtfKind.FLOAT:
        return CType(kind="float", name=name, size=own.value)
    return CType(kind="void", name=f"{name}void") if own.kind == BtfKind.VOID else VOID


def _members(btf: Btf, own: BtfType, inside: frozenset[int]) -> Iterator[Member]:
    for name, number, place in own.items:
        bits, offset = (place >> 24, place & 0xFFFFFF) if own.flag else (0, place)
        yield Member(btf.text(name), c_type_of_btf(btf, number, inside=inside), offset, bits)


def _enumerators(btf: Btf, own: BtfType) -> dict[int, str]:
    names: dict[int, str] = {}
    for name, *words in own.items:
        value, width = sum(word << 32 * k for k, word in enumerate(words)), 32 * len(words)
        names.setdefault(value - (1 << width) if own.flag and value >> width - 1 else value, btf.text(name))
    return names
