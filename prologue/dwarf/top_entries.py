"""The top-level entries of a compile unit, without parsing them, and its abbreviations, each decoded once.

A kernel's unit has some 3,000 entries (types, mostly), and pyelftools takes 0.1 s for them. ``TopEntries`` passes over
each by the sizes of its forms and by DW_AT_sibling, so that pyelftools parses only the wanted ones. Units of one
compiler declare the same abbreviations over and over, and pyelftools takes 30 ms and a megabyte for the table of each.
DWARF 5, sections 7.5.3 to 7.5.6.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from prologue.errors import InputError

_SIZES: Final = {
    "DW_FORM_addr": 8, "DW_FORM_data1": 1, "DW_FORM_data2": 2, "DW_FORM_data4": 4, "DW_FORM_data8": 8,
    "DW_FORM_data16": 16, "DW_FORM_flag": 1, "DW_FORM_flag_present": 0, "DW_FORM_implicit_const": 0,
    "DW_FORM_ref1": 1, "DW_FORM_ref2": 2, "DW_FORM_ref4": 4, "DW_FORM_ref8": 8, "DW_FORM_ref_sig8": 8,
    "DW_FORM_strx1": 1, "DW_FORM_strx2": 2, "DW_FORM_strx3": 3, "DW_FORM_strx4": 4,
    "DW_FORM_addrx1": 1, "DW_FORM_addrx2": 2, "DW_FORM_addrx3": 3, "DW_FORM_addrx4": 4,
    # DWARF of 32 bits, which is all that compilers of kernels make.
    "DW_FORM_strp": 4, "DW_FORM_line_strp": 4, "DW_FORM_sec_offset": 4, "DW_FORM_ref_addr": 4,
}  # fmt: skip
_NUMBERS: Final = ("DW_FORM_udata", "DW_FORM_sdata", "DW_FORM_ref_udata", "DW_FORM_strx", "DW_FORM_addrx",
                   "DW_FORM_loclistx", "DW_FORM_rnglistx")  # fmt: skip
_COUNTS: Final = {"DW_FORM_block1": 1, "DW_FORM_block2": 2, "DW_FORM_block4": 4}
_DAMAGE: Final = (IndexError, KeyError, RecursionError, ValueError, struct.error)
_OFFSET: Final = struct.Struct("<I")
_KEPT: Final = ("DW_TAG_subprogram", "DW_TAG_variable")
_FORM_IMPLICIT_CONST: Final = 0x21
_LEB128: Final = rb"[\x80-\xff]*[\x00-\x7f]"
# Nothing of it matches in two ways: no possessive repeat, which Python 3.11.2 (Debian 12) gets wrong, is needed.
# Code; tag, whether it has children, attributes: name and form, and the constant of DW_FORM_implicit_const; two zeros.
_DECLARATION: Final = re.compile(
    rb"(LEB)(LEB[\x00-\xff](?:(?!\0\0)LEB(?:\x21LEB|(?!\x21)LEB))*)\0\0".replace(b"LEB", _LEB128)
)
# Steps of a plan: a size, or one of these.
_NUMBER, _STRING, _BLOCK, _SIBLING = -1, -2, -3, -4
_COUNTED: Final = -8  # a block, its length in -8 - step bytes


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Steps over an entry of one abbreviation.

    ``passed`` is for entries of no tag that is kept: the size of one without children, or minus the offset of
    DW_AT_sibling in one with children; 0 if that varies.
    ``low_pc`` is the number of bytes from the first attribute to DW_AT_low_pc; -1 if that varies, or there is none.
    """

    tag: str
    steps: tuple[int, ...]
    passed: int
    children: bool
    low_pc: int
    has_code: bool


class TopEntries:
    """The functions and variables among the top-level entries of a unit, in their order.

    Offsets are from the start of the unit.

    Raises:
        InputError: a form that is not known, or damage.

    """

    def __init__(self, cu: Any, data: bytes) -> None:
        """Read ``data``, the unit from its header on."""
        self.data = data
        self.start = cu.cu_offset
        self.low_pcs: list[tuple[int, int]] = []  # address, ascending, and offset of the entry
        self.with_ranges: list[int] = []
        self._offsets: list[int] = []
        self._ends: list[int] = []  # after its children
        self._tags: list[str] = []
        self._plans = {code: _plan(abbrev) for code, abbrev in cu.get_abbrev_table().by_code.items()}
        try:
            self._walk(cu.cu_die_offset - cu.cu_offset)
            self.low_pcs.sort()
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InputError:
        return InputError(f"debug information cannot be read (unit at {self.start:#x}: {error!r})")

    def containing(self, at: int) -> int:
        """Return the offset of the function or variable that has this byte; -1 if none has it."""
        index = bisect_right(self._offsets, at) - 1
        return self._offsets[index] if index >= 0 and at < self._ends[index] else -1

    def tagged(self, *tags: str) -> list[int]:
        """Return the offsets of all functions (DW_TAG_subprogram) or variables (DW_TAG_variable)."""
        return [offset for offset, tag in zip(self._offsets, self._tags, strict=True) if tag in tags]

    def inside(self, function: int, tag: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each entry with that tag below a function, without its children."""
        try:
            at, end = function, self._ends[bisect_right(self._offsets, function) - 1]
            while at < end:
                start = at
                code, at = leb128(self.data, at)
                if code:
                    plan = self._plans[code]
                    at = self._skip(at, plan, jumps=False)[0]
                    if plan.tag == tag:
                        yield start, at
        except _DAMAGE as error:
            raise self._damaged(error) from error

    def _walk(self, at: int) -> None:
        data, plans = self.data, self._plans
        # By the first byte of an entry, which is its code or, from 128 on, the start of a longer one.
        passed = [plans[code].passed if code in plans and code < 0x80 else 0 for code in range(256)]
        code, at = leb128(data, at)
        at = self._skip(at, plans[code])[0]  # the unit's own entry: its sibling would be the next unit
        while at < len(data):
            size = passed[data[at]]
            if size > 0:
                at += size
                continue
            if size:
                at = _sibling(data, at - size)
                continue
            start = at
            code, at = leb128(data, at)
            if not code:
                return
            plan = plans[code]
            if plan.low_pc >= 0:
                low = at + plan.low_pc
                self.low_pcs.append((int.from_bytes(data[low : low + 8], "little"), start))
            elif plan.has_code:
                self.with_ranges.append(start)
            at, jumped = self._skip(at, plan)
            if plan.children and not jumped:
                at = self._children(at)
            if plan.tag in _KEPT:
                self._offsets.append(start)
                self._ends.append(at)
                self._tags.append(plan.tag)

    def _skip(self, at: int, plan: _Plan, *, jumps: bool = True) -> tuple[int, bool]:
        """Return the offset after the entry, and whether it is its sibling's, after its children."""
        data = self.data
        for step in plan.steps:
            if step >= 0:
                at += step
            elif step == _SIBLING:
                if jumps:
                    return _sibling(data, at), True
                at += 4
            elif step == _NUMBER:
                while data[at] & 0x80:
                    at += 1
                at += 1
            elif step == _STRING:
                at = data.index(0, at) + 1
            elif step == _BLOCK:
                size, at = leb128(data, at)
                at += size
            else:
                width = _COUNTED - step
                at += width + int.from_bytes(data[at : at + width], "little")
        return at, False

    def _children(self, at: int) -> int:
        """Pass over all entries below one that has no DW_AT_sibling, as Clang makes them."""
        depth = 1
        while depth:
            code, at = leb128(self.data, at)
            if not code:
                depth -= 1
                continue
            plan = self._plans[code]
            at, jumped = self._skip(at, plan)
            depth += plan.children and not jumped
        return at


def _sibling(data: bytes, at: int) -> int:
    """Read the offset of an entry's sibling."""
    sibling: int = _OFFSET.unpack_from(data, at)[0]
    if sibling <= at:
        raise ValueError(f"the sibling of the entry at {at:#x} is before it")
    return sibling


@cache
def _plan(abbrev: Abbrev) -> _Plan:
    steps: list[int] = []
    low_pc, has_code, before, fixed, passed = -1, False, 0, True, 0
    for name, form, _ in abbrev.attributes:
        is_sibling = name == "DW_AT_sibling" and form == "DW_FORM_ref4"
        step = _SIBLING if is_sibling else _step(form)
        if is_sibling and fixed:
            passed = -before - 1
        if abbrev.tag == "DW_TAG_subprogram" and name in ("DW_AT_low_pc", "DW_AT_ranges"):
            has_code = True
            if name == "DW_AT_low_pc" and form == "DW_FORM_addr" and fixed:
                low_pc = before
        fixed = fixed and step >= 0
        before += step
        if steps and step >= 0 and steps[-1] >= 0:
            steps[-1] += step
        else:
            steps.append(step)
    if fixed and not abbrev.children:
        passed = before + 1
    return _Plan(
        tag=abbrev.tag,
        steps=tuple(steps),
        passed=0 if abbrev.tag in _KEPT else passed,
        children=abbrev.children,
        low_pc=low_pc,
        has_code=has_code,
    )


def _step(form: str) -> int:
    if form in _SIZES:
        return _SIZES[form]
    if form in _NUMBERS:
        return _NUMBER
    if form == "DW_FORM_string":
        return _STRING
    if form in ("DW_FORM_exprloc", "DW_FORM_block"):
        return _BLOCK
    if form in _COUNTS:
        return _COUNTED - _COUNTS[form]
    raise InputError(f"debug information has a form that is not known: {form}")
