"""Fetch arguments of kprobe events: from a variable to what the kernel reads (Documentation/trace/kprobetrace.rst)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from prologue.dwarf.c_types import MOST_ELEMENTS, CType
from prologue.probe.language import MemberStep
from prologue.probe.storage import (
    ADDRESS_ONLY,
    COMPUTED,
    Constant,
    InMemory,
    InRegister,
    Missing,
    Pieces,
    Storage,
    Sum,
)
from prologue.words import meant

_STRINGS: Final = ("string", "ustring")


class FetchError(Exception):
    """An argument that cannot be had; ``is_mistake`` if the request is wrong in itself."""

    def __init__(self, reason: str, *, is_mistake: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_mistake = is_mistake


@dataclass(frozen=True, slots=True)
class Fetch:
    """A fetch argument, ``+16(%x0)``, its type (``u32``; empty for the kernel's own, 64 bits in hex), and a note."""

    text: str
    type: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class FetchedValue:
    """A value: its type, its storage, and its bits in there (``bits`` is 0 for all)."""

    type: CType
    storage: Storage
    bit_offset: int = 0  # in a register, or, of a bit field, in its storage
    bits: int = 0


def follow(start: FetchedValue, steps: tuple[MemberStep, ...], *, user: bool = False) -> FetchedValue:
    """Follow members and elements from a variable.

    Raises:
        FetchError: there is no such member, or it cannot be reached.

    """
    place = start
    for step in steps:
        if place.bits:
            raise FetchError("a bit field has no members", is_mistake=True)
        place = _element(place, step.index, user) if not step.member else _member(place, step, user)
    return place


def _member(place: FetchedValue, step: MemberStep, user: bool) -> FetchedValue:
    kind = place.type.kind
    if step.arrow != (kind == "pointer"):
        advice = "is a pointer: use ->" if kind == "pointer" else "is not a pointer: use . for a member"
        raise FetchError(f"what is before {step.member} {advice}", is_mistake=True)
    if step.arrow:
        place = FetchedValue(place.type.target, dereferenced(place, user))
    member = place.type.member(step.member)
    if member is None:
        names = list(place.type.member_names())
        unknown = "its members are not known" if place.type.kind == "struct" else ""
        hint = meant(step.member, names) if names else unknown
        raise FetchError(f"{place.type.name} has no member {step.member}{hint and ': ' + hint}", is_mistake=True)
    if member.bits:
        return FetchedValue(member.type, place.storage, place.bit_offset + member.bit_offset, member.bits)
    return _part(place, member.type, member.bit_offset // 8)


def _element(place: FetchedValue, index: int, user: bool) -> FetchedValue:
    if place.type.kind not in ("array", "pointer"):
        raise FetchError(f"{place.type.name} is neither array nor pointer: it has no [{index}]", is_mistake=True)
    element = place.type.target
    if place.type.kind == "array" and 0 < place.type.count <= index:
        raise FetchError(f"[{index}] is beyond {place.type.name}", is_mistake=True)
    if not element.size:
        raise FetchError(f"the size of {element.name} is not known")
    if place.type.kind == "pointer":
        place = FetchedValue(element, dereferenced(place, user))
    return _part(place, element, index * element.size)


def _part(place: FetchedValue, kind: CType, distance: int) -> FetchedValue:
    """Return the part of a struct or array that is so many bytes into it."""
    storage = place.storage
    if isinstance(storage, InMemory):
        return FetchedValue(kind, replace(storage, offset=storage.offset + distance))
    if isinstance(storage, InRegister):
        return FetchedValue(kind, storage, place.bit_offset + 8 * distance)
    if isinstance(storage, Pieces):
        part, begin = _piece_of(storage, 8 * distance, 8 * (kind.size or 0))
        if (8 * distance - begin) % 8:
            raise FetchError(COMPUTED)
        return _part(FetchedValue(kind, part), kind, distance - begin // 8)
    if distance == 0:
        return FetchedValue(kind, storage)
    raise FetchError(storage.reason if isinstance(storage, Missing) else COMPUTED)


def dereferenced(place: FetchedValue, user: bool = False) -> InMemory:
    """Return the storage that a pointer points to.

    Raises:
        FetchError: the pointer cannot be had.

    """
    storage = place.storage
    if isinstance(storage, InRegister) and not place.bit_offset:
        return InMemory(storage.register, 0, user)
    if isinstance(storage, InMemory):
        return InMemory(_memory(storage), 0, user)
    if isinstance(storage, Sum):
        return InMemory(storage.register, storage.offset, user, is_symbol=storage.register.startswith("@"))
    raise FetchError(storage.reason if isinstance(storage, Missing) else "it is no pointer in a register or in memory")


def _memory(storage: InMemory) -> str:
    """Return memory as a fetch argument."""
    if storage.is_symbol:
        return f"{storage.base}{storage.offset:+d}" if storage.offset else storage.base
    sign = "u" if storage.user else ""
    return f"{'-' if storage.offset < 0 else '+'}{sign}{abs(storage.offset)}({storage.base})"


def fetch(place: FetchedValue, wanted: str = "", *, user: bool = False) -> Fetch:
    """Make the fetch argument for a value; ``wanted`` is a type of events, empty for the value's own.

    Raises:
        FetchError: events cannot show it.

    """
    storage, kind = place.storage, place.type
    if isinstance(storage, Missing):
        raise FetchError(storage.reason)
    if wanted in _STRINGS:
        return _string(place, wanted, user)
    if place.bits:
        return _bit_field(place, wanted)
    if wanted:
        return Fetch(_scalar(place), wanted)
    if kind.kind == "array":
        return _array(place)
    if kind.kind == "struct":
        return _struct(place)
    if kind.kind in ("float", "void", "function", "unknown") or (kind.kind == "int" and not kind.event_type):
        raise FetchError(f"events cannot show {kind.name}")
    if isinstance(storage, InRegister) and place.bit_offset:
        size = 8 * (kind.size or 8)
        note = "shown unsigned" if kind.signed else ""
        return Fetch(storage.register, f"b{size}@{place.bit_offset}/64", note)
    return Fetch(_scalar(place), kind.event_type)


def _scalar(place: FetchedValue) -> str:
    storage = place.storage
    if isinstance(storage, InRegister) and not place.bit_offset:
        return storage.register
    if isinstance(storage, InMemory):
        return _memory(storage)
    if isinstance(storage, Constant):
        return f"\\{storage.value}"
    if isinstance(storage, Sum):
        raise FetchError(ADDRESS_ONLY if storage.register.startswith("@") else COMPUTED)
    raise FetchError("it is in several registers: name a member")


def _string(place: FetchedValue, wanted: str, user: bool) -> Fetch:
    if place.type.kind == "array":
        if not isinstance(place.storage, InMemory):
            raise FetchError("the array is not in memory")
        return Fetch(_memory(place.storage), wanted)
    if place.type.kind != "pointer" or place.bits:
        raise FetchError(f"{place.type.name} is no string", is_mistake=True)
    return Fetch(_memory(dereferenced(place, user)), wanted)


def _bit_field(place: FetchedValue, wanted: str) -> Fetch:
    if wanted:
        raise FetchError("a bit field has a type of its own: leave it out", is_mistake=True)
    note = "shown unsigned" if place.type.signed else ""
    if isinstance(place.storage, Pieces):
        part, begin = _piece_of(place.storage, place.bit_offset, place.bits)
        if isinstance(part, Missing):
            raise FetchError(part.reason)
        place = FetchedValue(place.type, part, place.bit_offset - begin, place.bits)
    if isinstance(place.storage, InRegister):
        return Fetch(place.storage.register, f"b{place.bits}@{place.bit_offset}/64", note)
    # The kernel loads one unit of storage, from any byte, and shifts; a packed field may need another than its type's.
    for size, step in ((8 * (place.type.size or 8), 8 * (place.type.size or 8)), (64, 64), (64, 8)):
        begin = place.bit_offset // step * step
        if place.bit_offset + place.bits <= begin + size:
            moved = _part(FetchedValue(place.type, place.storage), place.type, begin // 8)
            return Fetch(_scalar(moved), f"b{place.bits}@{place.bit_offset - begin}/{size}", note)
    raise FetchError("the bit field lies in nine bytes, and the kernel loads eight")


def _piece_of(pieces: Pieces, offset: int, bits: int) -> tuple[Storage, int]:
    """Return the piece that has these bits of a struct, and the bit that it begins with.

    Raises:
        FetchError: several pieces have them.

    """
    begin = 0
    for size, part in pieces.parts:
        if begin <= offset and offset + bits <= begin + size:
            return part, begin
        begin += size
    raise FetchError("it is in several registers at once")


def _array(place: FetchedValue) -> Fetch:
    kind = place.type
    element = kind.target
    base = element.event_type or ("x64" if element.kind == "pointer" else "")
    if not base:
        raise FetchError(f"{kind.name}: name an element and a member, [0].MEMBER", is_mistake=True)
    if not kind.count:
        raise FetchError(f"the length of {kind.name} is not known: name an element, [0]", is_mistake=True)
    if not isinstance(place.storage, InMemory):
        raise FetchError("the array is not in memory: name an element")
    count = min(kind.count, MOST_ELEMENTS)
    note = f"the first {count} of {kind.count} elements" if count < kind.count else ""
    return Fetch(_memory(place.storage), f"{base}[{count}]", note)


def _struct(place: FetchedValue) -> Fetch:
    """Fetch a struct as a whole, in hex: the rest of its register is undefined if it is shorter."""
    size, storage = place.type.size or 0, place.storage
    if isinstance(storage, InRegister) and 0 < size <= 8:
        if size in (1, 2, 4, 8) and not place.bit_offset:
            return Fetch(storage.register, f"x{8 * size}")
        return Fetch(storage.register, f"b{8 * size}@{place.bit_offset}/64")
    if isinstance(storage, InMemory) and size:
        if size in (1, 2, 4, 8):
            return Fetch(_memory(storage), f"x{8 * size}")
        width = next((width for width in (8, 4, 2, 1) if size % width == 0), 1)
        if size // width <= MOST_ELEMENTS:
            return Fetch(_memory(storage), f"x{8 * width}[{size // width}]")
    raise FetchError(f"{place.type.name} of {size} bytes: name a member", is_mistake=True)
