"""The top-level entries of a compile unit, without parsing them.

A kernel's unit has some 3,000 (types, mostly), and pyelftools takes 0.1 s for them. ``TopEntries`` passes over each by
the sizes of its forms and by DW_AT_sibling, so that pyelftools parses only the wanted ones. DWARF 5, sections 7.5.3 to
7.5.6.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Final

from prologue.errors import InputError
from prologue.live.probe.abbrev_table import Abbrev, leb128

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
# Steps of a plan: a size, or one of these.
_NUMBER, _STRING, _BLOCK, _SIBLING = -1, -2, -3, -4
_COUNTED: Final = -8  # a block, its length in -8 - step bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Steps over an entry of one abbreviation."""

    tag: str
    steps: tuple[int, ...]
    children: bool
    low_pc: int  # bytes from the first attribute to DW_AT_low_pc; -1 if that varies, or there is none
    has_code: bool


class TopEntries:
    """The top-level entries of a unit, in their order: offsets from the start of the unit, and tags.

    Raises:
        InputError: a form that is not known, or damage.

    """

    def __init__(self, cu: Any, data: bytes) -> None:
        """Read ``data``, the unit from its header on."""
        self.data = data
        self.start = cu.cu_offset
        self.offsets: list[int] = []  # from the start of the unit
        self.low_pcs: list[tuple[int, int]] = []  # address, ascending, and offset of the entry
        self.with_ranges: list[int] = []
        self._tags: list[str] = []
        self._plans = {code: _plan(abbrev) for code, abbrev in cu.get_abbrev_table().by_code.items()}
        try:
            self._walk(cu.cu_die_offset - cu.cu_offset)
            self.low_pcs.sort()
        except (IndexError, KeyError, RecursionError, ValueError) as error:
            raise InputError(f"debug information cannot be read (unit at {self.start:#x}: {error!r})") from error

    def containing(self, at: int) -> int:
        """Return the offset of the entry that has this byte, both from the start of the unit; -1 if none has it."""
        index = bisect_right(self.offsets, at) - 1
        return self.offsets[index] if index >= 0 else -1

    def tagged(self, *tags: str) -> list[int]:
        """Return the offsets of all entries with one of these tags."""
        return [offset for offset, tag in zip(self.offsets, self._tags, strict=True) if tag in tags]

    def _walk(self, at: int) -> None:
        data, plans = self.data, self._plans
        code, at = leb128(data, at)
        at = self._skip(at, plans[code])[0]  # the unit's own entry: its sibling would be the next unit
        while at < len(data):
            start = at
            code, at = leb128(data, at)
            if not code:
                return
            plan = plans[code]
            self.offsets.append(start)
            self._tags.append(plan.tag)
            if plan.low_pc >= 0:
                low = at + plan.low_pc
                self.low_pcs.append((int.from_bytes(data[low : low + 8], "little"), start))
            elif plan.has_code:
                self.with_ranges.append(start)
            at, jumped = self._skip(at, plan)
            if plan.children and not jumped:
                at = self._children(at)

    def _skip(self, at: int, plan: _Plan) -> tuple[int, bool]:
        """Return the offset after the entry, and whether it is its sibling's, after its children."""
        data = self.data
        for step in plan.steps:
            if step >= 0:
                at += step
            elif step == _SIBLING:
                return int.from_bytes(data[at : at + 4], "little"), True
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


def _plan(abbrev: Abbrev) -> _Plan:
    steps: list[int] = []
    low_pc, has_code, before, fixed = -1, False, 0, True
    for name, form, _ in abbrev.attributes:
        if name == "DW_AT_sibling" and form == "DW_FORM_ref4":
            steps.append(_SIBLING)
            break
        if abbrev.tag == "DW_TAG_subprogram" and name in ("DW_AT_low_pc", "DW_AT_ranges"):
            has_code = True
            if name == "DW_AT_low_pc" and form == "DW_FORM_addr" and fixed:
                low_pc = before
        step = _step(form)
        fixed = fixed and step >= 0
        before += step
        if steps and step >= 0 and steps[-1] >= 0:
            steps[-1] += step
        else:
            steps.append(step)
    return _Plan(
        tag=abbrev.tag,
        steps=tuple(steps),
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
