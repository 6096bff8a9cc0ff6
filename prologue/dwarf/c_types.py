"""C types as arguments of events need them, whether DWARF or BTF describes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

TypeKind = Literal["int", "pointer", "struct", "array", "float", "function", "void", "unknown"]
MOST_ELEMENTS: Final = 64  # MAX_ARRAY_LEN of kernel/trace/trace_probe.h
_SIZES: Final = (1, 2, 4, 8)


class Member(NamedTuple):
    """A member of a struct or union; an anonymous one has no name. ``bits`` is 0 unless it is a bit field."""

    name: str
    type: CType
    bit_offset: int
    bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CType:
    """A type without its typedefs and qualifiers; ``name`` is as C has it, typedefs included.

    ``size`` is in bytes, None if it is not known. Enumerations and booleans are integers. ``find_target`` gives the
    type that a pointer or array is of, or that a function returns; ``find_members`` the members of a struct or union;
    ``find_enumerators`` the names of an enumeration by their values.
    """

    kind: TypeKind
    name: str
    size: int | None = None
    signed: bool = False
    count: int = 0  # elements of an array; 0 if unknown
    find_target: Callable[[], CType] | None = None
    find_members: Callable[[], tuple[Member, ...]] | None = None
    find_enumerators: Callable[[], dict[int, str]] | None = None

    @property
    def enumerators(self) -> dict[int, str]:
        """Names of an enumeration by their values, of several the first; empty for all other types."""
        return self.find_enumerators() if self.find_enumerators is not None else {}

    @property
    def target(self) -> CType:
        """Type that a pointer or array is of; void if it is not known."""
        return self.find_target() if self.find_target is not None else VOID

    @property
    def members(self) -> tuple[Member, ...]:
        """Members of a struct or union, in order."""
        return self.find_members() if self.find_members is not None else ()

    @property
    def event_type(self) -> str:
        """Type of an integer in an event (Documentation/trace/kprobetrace.rst, "Types"); empty for all other types.

        An event needs it: the upper bits of a register are undefined if the integer is shorter.
        """
        if self.kind == "int" and self.size in _SIZES:
            return f"{'s' if self.signed else 'u'}{self.size * 8}"
        return ""

    def member(self, name: str) -> Member | None:
        """Find a member by its name, also in anonymous structs and unions; None if there is none."""
        for member in self.members:
            if member.name == name:
                return member
            inner = member.type.member(name) if not member.name and member.type.kind == "struct" else None
            if inner is not None:
                return inner._replace(bit_offset=member.bit_offset + inner.bit_offset)
        return None

    def member_names(self) -> Iterator[str]:
        """Yield all names that ``member`` knows."""
        for member in self.members:
            if member.name:
                yield member.name
            elif member.type.kind == "struct":
                yield from member.type.member_names()


VOID: Final = CType(kind="void", name="void")


def pointer_to(target: Callable[[], CType], name: str, own_name: str = "") -> CType:
    """Make a pointer to ``target``, whose name is ``name``; ``own_name`` is that of a typedef."""
    own_name = own_name or (f"{name} *" if not name.endswith("*") else f"{name}*")
    return CType(kind="pointer", name=own_name, size=8, find_target=target)


def array_of(element: CType, count: int, own_name: str = "") -> CType:
    """Make an array; a ``count`` of 0 is not known. ``own_name`` is that of a typedef."""
    size = element.size * count if element.size is not None else None
    name = own_name or f"{element.name}[{count or ''}]"
    return CType(kind="array", name=name, size=size, count=count, find_target=lambda: element)
