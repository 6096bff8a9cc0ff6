"""Abbreviation tables for pyelftools, whose own parser takes 30 ms and a megabyte for each unit of a kernel.

DWARF 5, section 7.5.3.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

_FORM_IMPLICIT_CONST: Final = 0x21


class AttributeSpec(NamedTuple):
    """An attribute of an abbreviation; ``value`` is the constant of DW_FORM_implicit_const, otherwise None."""

    name: str
    form: str
    value: int | None


class Abbrev(NamedTuple):
    """An abbreviation, as ``elftools.dwarf.abbrevtable.AbbrevDecl`` gives it to the parser of entries."""

    tag: str
    children: bool
    attributes: tuple[AttributeSpec, ...]

    def __getitem__(self, name: Any) -> Any:
        """Return the fields by the names that pyelftools has for them."""
        return self.tag if name == "tag" else self.attributes

    def has_children(self) -> bool:
        """Return whether entries of it have children."""
        return self.children


class AbbrevTable:
    """The abbreviation table of a unit, by codes."""

    def __init__(self, data: bytes, at: int) -> None:
        tags, names, forms = _names()
        self.by_code: dict[int, Abbrev] = {}
        code, at = leb128(data, at)
        while code:
            tag, at = leb128(data, at)
            children, at = data[at], at + 1
            attributes = []
            name, at = leb128(data, at)
            form, at = leb128(data, at)
            while name or form:
                value = None
                if form == _FORM_IMPLICIT_CONST:
                    value, at = leb128(data, at, signed=True)
                attributes.append(AttributeSpec(names.get(name, str(name)), forms.get(form, str(form)), value))
                name, at = leb128(data, at)
                form, at = leb128(data, at)
            self.by_code[code] = Abbrev(tags.get(tag, str(tag)), bool(children), tuple(attributes))
            code, at = leb128(data, at)

    def get_abbrev(self, code: int) -> Abbrev:
        """Return the abbreviation with that code."""
        return self.by_code[code]


@cache
def _names() -> tuple[dict[int, str], dict[int, str], dict[int, str]]:
    """Return the names of tags, attributes and forms, by their values."""
    from elftools.dwarf.enums import ENUM_DW_AT, ENUM_DW_FORM, ENUM_DW_TAG

    return _by_value(ENUM_DW_TAG), _by_value(ENUM_DW_AT), _by_value(ENUM_DW_FORM)


def _by_value(table: dict[str, Any]) -> dict[int, str]:
    result: dict[int, str] = {}
    for name, value in table.items():
        if isinstance(value, int):
            result.setdefault(value, name)
    return result


def leb128(data: bytes, at: int, *, signed: bool = False) -> tuple[int, int]:
    """Decode the LEB128 number at ``at``; return it and the offset after it."""
    byte = data[at]
    if byte < 0x40 or (byte < 0x80 and not signed):
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while byte & 0x80:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    return value - (1 << shift) if signed and byte & 0x40 else value, at + 1
