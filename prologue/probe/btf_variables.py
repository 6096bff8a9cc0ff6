"""The parameters of a function at its entry, by BTF and the procedure call standard, and C types of BTF's types.

BTF has prototypes only: where a value is later, and what locals a function has, DWARF alone says.
Documentation/bpf/btf.rst (6.12).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.dwarf.btf import Btf, BtfKind, BtfType
from prologue.dwarf.c_types import VOID, CType, Member, array_of, pointer_to
from prologue.probe.procedure_call import passed
from prologue.probe.scopes import Variable
from prologue.probe.storage import ENTRY_ONLY, Missing

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


class BtfVariables:
    """The parameters of a function as BTF has its prototype, for ``find_arguments``.

    Args:
        btf: the kernel's types.
        name: the function, of which there is only one.
        prototype: its type.
        at_entry: nothing of it has run yet.

    """

    def __init__(self, btf: Btf, name: str, prototype: int, *, at_entry: bool) -> None:
        self._btf, self._name, self._at_entry = btf, name, at_entry
        self._prototype = btf.type(prototype)

    @property
    def function_name(self) -> str:
        """Name of the function."""
        return self._name

    def parameters(self) -> list[Variable]:
        """Return the parameters, in order; those without a name, of a variable number, are left out."""
        typed = [(self._btf.text(name), c_type_of_btf(self._btf, kind)) for name, kind in self._prototype.items if kind]
        places = passed([kind for _, kind in typed])
        return [
            Variable(name, kind, place if self._at_entry or isinstance(place, Missing) else Missing(ENTRY_ONLY))
            for (name, kind), place in zip(typed, places, strict=True)
            if name
        ]

    def variables(self) -> list[Variable]:
        """Return the parameters: BTF has no locals."""
        return self.parameters()

    def find(self, name: str) -> Variable | None:
        """Find a parameter; None if there is none of that name."""
        return next((variable for variable in self.parameters() if variable.name == name), None)

    def names(self) -> list[str]:
        """Return the names of the parameters."""
        return [variable.name for variable in self.parameters()]

    def return_type(self) -> CType:
        """Return the type of the function's value."""
        return c_type_of_btf(self._btf, self._prototype.value)

    def global_type(self, name: str) -> CType | None:
        """Return the type of a global variable; None if BTF has none of that name: it may have per-CPU ones only."""
        number = self._btf.variable(name)
        return c_type_of_btf(self._btf, number) if number is not None else None


def c_type_of_btf(btf: Btf, number: int, depth: int = 0, inside: frozenset[int] = frozenset()) -> CType:
    """Read the type of that number; each type behind a pointer or in a struct is read when it is asked for.

    ``depth`` counts the types on the way to it, ``inside`` has the structs that it is a part of: in damaged BTF a type
    may lead to itself, and is void then.

    Raises:
        InputError: BTF is damaged.

    """
    name, qualifiers, type_ = "", "", btf.type(number)
    while (type_.kind in _QUALIFIERS or type_.kind == BtfKind.TYPEDEF) and depth <= _DEEPEST:
        depth, number = depth + 1, type_.value
        if type_.kind == BtfKind.TYPEDEF:
            name = name or type_.name
        elif not name:
            qualifiers += _QUALIFIERS[type_.kind]
        type_ = btf.type(number)
    if depth > _DEEPEST or number in inside:
        return VOID
    if not name and type_.kind not in _UNNAMED:
        tag = ("union" if type_.flag else "struct") if type_.kind == BtfKind.FWD else _TAGS.get(type_.kind, "")
        name = qualifiers + f"{tag} {type_.name}".strip()
    if type_.kind in (BtfKind.STRUCT, BtfKind.UNION):
        path = inside | {number}
        return CType(kind="struct", name=name, size=type_.value, find_members=lambda: tuple(_members(btf, type_, path)))
    if type_.kind == BtfKind.ARRAY:
        element, _, count = type_.items[0]
        return array_of(c_type_of_btf(btf, element, depth + 1, inside), count, name)
    return _of_kind(btf, type_, name, depth)


def _of_kind(btf: Btf, type_: BtfType, name: str, depth: int) -> CType:
    """Make a type that has no parts; ``name`` is empty if it is made of another type's name."""
    if type_.kind == BtfKind.INT:
        return CType(kind="int", name=name, size=type_.value, signed=bool(type_.items[0][0] >> 24 & _SIGNED))
    if type_.kind in (BtfKind.ENUM, BtfKind.ENUM64):
        return CType(
            kind="int", name=name, size=type_.value, signed=type_.flag, find_enumerators=lambda: _enum_names(btf, type_)
        )
    if type_.kind == BtfKind.PTR:
        target = type_.value
        return pointer_to(lambda: c_type_of_btf(btf, target), c_type_of_btf(btf, target, depth + 1).name, name)
    if type_.kind == BtfKind.FWD:
        return CType(kind="struct", name=name)
    if type_.kind == BtfKind.FUNC_PROTO:
        return CType(kind="function", name=name or "function", find_target=lambda: c_type_of_btf(btf, type_.value))
    if type_.kind == BtfKind.FLOAT:
        return CType(kind="float", name=name, size=type_.value)
    return CType(kind="void", name=f"{name}void") if type_.kind == BtfKind.VOID else VOID


def _members(btf: Btf, type_: BtfType, inside: frozenset[int]) -> Iterator[Member]:
    for name, number, place in type_.items:
        bits, offset = (place >> 24, place & 0xFFFFFF) if type_.flag else (0, place)
        yield Member(btf.text(name), c_type_of_btf(btf, number, inside=inside), offset, bits)


def _enum_names(btf: Btf, type_: BtfType) -> dict[int, str]:
    names: dict[int, str] = {}
    for name, *words in type_.items:
        value, width = sum(word << 32 * k for k, word in enumerate(words)), 32 * len(words)
        names.setdefault(value - (1 << width) if type_.flag and value >> width - 1 else value, btf.text(name))
    return names
