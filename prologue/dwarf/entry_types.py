"""C types of DWARF's entries (version 5, chapter 5; bit fields also as in version 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from prologue.dwarf.c_types import VOID, CType, Member, array_of, pointer_to
from prologue.dwarf.debug_info import DebugInfo
from prologue.dwarf.dwarf_entries import DEEPEST, number_of, origin, text_of

_ALIASES: Final = {
    "DW_TAG_typedef": "", "DW_TAG_const_type": "const ", "DW_TAG_volatile_type": "volatile ",
    "DW_TAG_restrict_type": "", "DW_TAG_atomic_type": "_Atomic ",
}  # fmt: skip
_STRUCTS: Final = {"DW_TAG_structure_type": "struct", "DW_TAG_union_type": "union"}
_COMPLEX, _FLOAT, _SIGNED, _SIGNED_CHAR = 3, 4, 5, 6  # DW_ATE


def type_of(debug: DebugInfo, entry: Any) -> CType:
    """Return the type of a variable, parameter, member or function's value; of its abstract origin, if need be."""
    described = next((each for each in (entry, origin(entry)) if "DW_AT_type" in each.attributes), None)
    return VOID if described is None else c_type(debug, described.get_DIE_from_attribute("DW_AT_type"))


def c_type(debug: DebugInfo, entry: Any, depth: int = 0) -> CType:
    """Read the type that an entry describes."""
    name, qualifiers = "", ""
    while entry.tag in _ALIASES and depth < DEEPEST:
        depth += 1
        if entry.tag == "DW_TAG_typedef":
            name = name or text_of(entry, "DW_AT_name")
        elif not name:
            qualifiers += _ALIASES[entry.tag]
        if "DW_AT_type" not in entry.attributes:
            return CType(kind="void", name=name or f"{qualifiers}void")
        entry = entry.get_DIE_from_attribute("DW_AT_type")
    entry_name = text_of(entry, "DW_AT_name")
    size = number_of(entry, "DW_AT_byte_size", -1)
    known = size if size >= 0 else None
    if entry.tag == "DW_TAG_base_type":
        encoding = number_of(entry, "DW_AT_encoding")
        return CType(
            kind="float" if encoding in (_COMPLEX, _FLOAT) else "int", name=name or qualifiers + entry_name, size=known,
            signed=encoding in (_SIGNED, _SIGNED_CHAR),
        )  # fmt: skip
    if entry.tag == "DW_TAG_enumeration_type":
        return CType(
            kind="int", name=name or f"{qualifiers}enum {entry_name}", size=known, signed=_is_signed(debug, entry),
            find_enumerators=lambda: _enumerators(entry),
        )  # fmt: skip
    if entry.tag == "DW_TAG_pointer_type":
        return _pointer(debug, entry, name, depth)
    if entry.tag in _STRUCTS:
        return _struct(debug, entry, name or f"{qualifiers}{_STRUCTS[entry.tag]} {entry_name}".strip(), known)
    if entry.tag == "DW_TAG_array_type":
        return _array(debug, entry, name, depth)
    if entry.tag == "DW_TAG_subroutine_type":
        return CType(kind="function", name=name or "function", find_target=lambda: type_of(debug, entry))
    return CType(kind="unknown", name=name or entry_name or entry.tag, size=known)


def _pointer(debug: DebugInfo, entry: Any, name: str, depth: int) -> CType:
    if "DW_AT_type" not in entry.attributes or depth > DEEPEST:
        target = VOID
    else:
        target = c_type(debug, entry.get_DIE_from_attribute("DW_AT_type"), depth + 1)
    return pointer_to(lambda: target, target.name, name)


def _struct(debug: DebugInfo, entry: Any, name: str, size: int | None) -> CType:
    """Read a struct or union; if its unit only declares it, its members are looked up in the whole file."""

    def members() -> tuple[Member, ...]:
        if "DW_AT_declaration" not in entry.attributes:
            return tuple(_members(debug, entry))
        whole = debug.whole_file.struct(f"{_STRUCTS[entry.tag]} {text_of(entry, 'DW_AT_name')}")
        return whole.members if whole is not None else ()

    return CType(kind="struct", name=name, size=size, find_members=members)


def _members(debug: DebugInfo, entry: Any) -> Iterator[Member]:
    for child in entry.iter_children():
        if child.tag != "DW_TAG_member":
            continue
        bits = number_of(child, "DW_AT_bit_size")
        inner = type_of(debug, child)
        yield Member(text_of(child, "DW_AT_name"), inner, _bit_offset(child, bits, inner), bits)


def _bit_offset(entry: Any, bits: int, inner: CType) -> int:
    if "DW_AT_data_bit_offset" in entry.attributes:
        return number_of(entry, "DW_AT_data_bit_offset")
    value = number_of(entry, "DW_AT_data_member_location")
    if "DW_AT_bit_offset" in entry.attributes:  # up to DWARF 4, from the highest bit of the storage
        storage = number_of(entry, "DW_AT_byte_size", inner.size or 0)
        return 8 * (value + storage) - number_of(entry, "DW_AT_bit_offset") - bits
    return 8 * value


def _is_signed(debug: DebugInfo, enumeration: Any) -> bool:
    """Return whether an enumeration has negative values: GCC gives its encoding, Clang the type of its values."""
    encoding = number_of(enumeration, "DW_AT_encoding")
    return encoding in (_SIGNED, _SIGNED_CHAR) if encoding else type_of(debug, enumeration).signed


def _enumerators(entry: Any) -> dict[int, str]:
    names: dict[int, str] = {}
    for child in entry.iter_children():
        if child.tag == "DW_TAG_enumerator":
            names.setdefault(number_of(child, "DW_AT_const_value"), text_of(child, "DW_AT_name"))
    return names


def _array(debug: DebugInfo, entry: Any, name: str, depth: int) -> CType:
    """Read an array; if it has several dimensions, as an array of arrays."""
    element = type_of(debug, entry) if depth < DEEPEST else VOID
    counts = []
    for child in entry.iter_children():
        if child.tag == "DW_TAG_subrange_type":
            upper = child.attributes.get("DW_AT_upper_bound")
            count = child.attributes.get("DW_AT_count")
            number = count.value if count is not None else upper.value + 1 if upper is not None else 0
            counts.append(number if isinstance(number, int) and 0 <= number < 1 << 32 else 0)
    first, *inner = counts or [0]
    for number in reversed(inner):
        element = array_of(element, number)
    return array_of(element, first, name)
