"""Abbreviation tables for pyelftools, whose own parser takes 30 ms and a megabyte for each unit of a kernel.

DWARF 5, section 7.5.3. Units of one compiler declare the same abbreviations over and over: each is decoded once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

_FORM_IMPLICIT_CONST: Final = 0x21
_LEB128: Final = rb"[\x80-\xff]*[\x00-\x7f]"
# Nothing of it matches in two ways: no possessive repeat, which Python 3.11.2 (Debian 12) gets wrong, is needed.
# Code; tag, whether it has children, attributes: name and form, and the constant of DW_FORM_implicit_const; two zeros.
_DECLARATION: Final = re.compile(
    rb"(LEB)(LEB[\x00-\xff](?:(?!\0\0)LEB(?:\x21LEB|(?!\x21)LEB))*)\0\0".replace(b"LEB", _LEB128)
)


class AttributeSpec(NamedTuple):
    """An attribute of an abbreviation; ``value`` is the constant of DW_FORM_implicit_const, otherwise None."""

    name: str
    form: str
    value: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Abbrev:
    """An abbreviation, as ``elftools.dwarf.abbrevtable.AbbrevDecl`` gives it to the parser of entries.

    There is one object for all tables that have it.
    """

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
    """The abbreviation table of a unit, by codes.

    Raises:
        ValueError: it is damaged.

    """

    def __init__(self, data: bytes, start: int) -> None:
        self.by_code: dict[int, Abbrev] = {}
        at = start
        while data[at : at + 1] != b"\0":
            declaration = _DECLARATION.match(data, at)
            if declaration is None:
                raise ValueError(f"damaged table of abbreviations at {start:#x}")
            self.by_code[leb128(declaration[1], 0)[0]] = _abbrev(declaration[2])
            at = declaration.end()

    def get_abbrev(self, code: int) -> Abbrev:
        """Return the abbreviation with that code."""
        return self.by_code[code]


@cache
def _abbrev(data: bytes) -> Abbrev:
    """Decode a declaration: tag, whether entries of it have children, and attributes."""
    tags, names, forms = _names()
    tag, at = leb128(data, 0)
    children, at = data[at], at + 1
    attributes = []
    while at < len(data):
        name, at = leb128(data, at)
        form, at = leb128(data, at)
        value = None
        if form == _FORM_IMPLICIT_CONST:
            value, at = leb128(data, at, signed=True)
        attributes.append(AttributeSpec(names.get(name, str(name)), forms.get(form, str(form)), value))
    return Abbrev(tags.get(tag, str(tag)), bool(children), tuple(attributes))


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
