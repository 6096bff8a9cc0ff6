"""What a function's parameters are called and which registers hold them at one of its instructions, by DWARF.

DWARF 5, sections 2.6 (locations), 3.3.4 (parameters); DWARF for the Arm 64-bit Architecture, "DWARF register names":
register n below 31 is Xn. pyelftools reads it, and only when it is asked for: a kernel's takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from prologue.errors import InputError

_OP_REG0: Final = 0x50  # DW_OP_reg0; DW_OP_reg30 is the last that names a general register
_DEEPEST: Final = 32  # entries that refer to each other: more are a circle, of damaged debug information
_QUALIFIERS: Final = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type")
_SIGNED: Final = (5, 6)  # DW_ATE_signed, DW_ATE_signed_char


class Argument(NamedTuple):
    """A parameter; ``register`` is None where no single general register holds it."""

    name: str
    register: int | None
    type: str  # of kprobe events: s32, u8, ...; empty for what is best shown in hex


def arguments_at(vmlinux: Path, vaddr: int) -> list[Argument] | None:
    """The parameters of the function that the instruction is in; None where debug information does not know it.

    Raises:
        InputError: the debug information is damaged.

    """
    from elftools.common.exceptions import DWARFError
    from elftools.elf.elffile import ELFFile

    from prologue.elf.headers import PARSE_ERRORS

    try:
        with vmlinux.open("rb") as stream:
            elf = ELFFile(stream)
            if not elf.has_dwarf_info():
                return None
            dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
            function = _function_at(dwarf, vaddr)
            return list(_arguments(dwarf, function, vaddr)) if function is not None else None
    # pyelftools checks little: damaged debug information ends in any of these.
    except (*PARSE_ERRORS, DWARFError, AssertionError, AttributeError, NotImplementedError, TypeError) as error:
        reason = str(error) or type(error).__name__
        raise InputError(f"debug information cannot be read ({reason})", path=vmlinux) from error


def _function_at(dwarf: Any, vaddr: int) -> Any:
    top = _unit_at(dwarf, vaddr)
    if top is None:
        return None
    for entry in top.iter_children():
        if entry.tag == "DW_TAG_subprogram" and any(low <= vaddr < high for low, high in code_of(dwarf, entry)):
            return entry
    return None


def _unit_at(dwarf: Any, vaddr: int) -> Any:
    """The compilation unit with that code: GCC makes a table of all, Clang does not."""
    ranges = dwarf.get_aranges()
    offset = ranges.cu_offset_at_addr(vaddr) if ranges is not None else None
    if offset is not None:
        return dwarf.get_CU_at(offset).get_top_DIE()
    units = (unit.get_top_DIE() for unit in dwarf.iter_CUs())
    return next((top for top in units if any(low <= vaddr < high for low, high in code_of(dwarf, top))), None)


def code_of(dwarf: Any, entry: Any) -> Iterator[tuple[int, int]]:
    """The addresses of a function or unit: one run, or several, if a function's unlikely part stands elsewhere."""
    from elftools.dwarf.ranges import BaseAddressEntry

    low, high = entry.attributes.get("DW_AT_low_pc"), entry.attributes.get("DW_AT_high_pc")
    if low is not None and high is not None:
        # DW_FORM_addr is an address, every other form a size.
        yield low.value, high.value if high.form == "DW_FORM_addr" else low.value + high.value
    elif "DW_AT_ranges" in entry.attributes:
        base = _base(entry)
        for item in dwarf.range_lists().get_range_list_at_offset(entry.attributes["DW_AT_ranges"].value, entry.cu):
            if isinstance(item, BaseAddressEntry):
                base = item.base_address
            else:
                start = 0 if item.is_absolute else base
                yield start + item.begin_offset, start + item.end_offset


def _base(entry: Any) -> int:
    """What offsets in lists are from, until a list says otherwise: the start of the compilation unit."""
    low = entry.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
    return int(low.value) if low is not None else 0


def _arguments(dwarf: Any, function: Any, vaddr: int) -> Iterator[Argument]:
    for entry in function.iter_children():
        if entry.tag == "DW_TAG_formal_parameter":
            name = _inherited(entry, "DW_AT_name")
            if name is not None:
                text = name.value.decode("ascii", "replace")
                yield Argument(text, _register(dwarf, entry, vaddr), _event_type(entry))


def _inherited(entry: Any, name: str) -> Any:
    """An attribute of the entry or, as for functions that are also inlined, of its abstract origin."""
    for _ in range(_DEEPEST):
        if name in entry.attributes:
            return entry.attributes[name]
        if "DW_AT_abstract_origin" not in entry.attributes:
            break
        entry = entry.get_DIE_from_attribute("DW_AT_abstract_origin")
    return None


def _register(dwarf: Any, entry: Any, vaddr: int) -> int | None:
    location = entry.attributes.get("DW_AT_location")
    expression = _expression(dwarf, entry, location, vaddr) if location is not None else None
    if expression is None or len(expression) != 1 or not _OP_REG0 <= expression[0] < _OP_REG0 + 31:
        return None
    return int(expression[0]) - _OP_REG0


def _expression(dwarf: Any, entry: Any, location: Any, vaddr: int) -> list[int] | None:
    from elftools.dwarf.locationlists import BaseAddressEntry, LocationEntry, LocationExpr, LocationParser

    parsed = LocationParser(dwarf.location_lists()).parse_from_attribute(location, entry.cu["version"], entry)
    if isinstance(parsed, LocationExpr):
        return list(parsed.loc_expr)
    base = _base(entry)
    for item in parsed:
        if isinstance(item, BaseAddressEntry):
            base = item.base_address
        elif isinstance(item, LocationEntry):  # not a view pair, which divides what is at one address
            start = 0 if item.is_absolute else base
            if start + item.begin_offset <= vaddr < start + item.end_offset:
                return list(item.loc_expr)
    return None


def _event_type(entry: Any) -> str:
    """Documentation/trace/kprobetrace.rst, "Types": integers get theirs, for the rest of a register is undefined."""
    for _ in range(_DEEPEST):
        link = next((name for name in ("DW_AT_type", "DW_AT_abstract_origin") if name in entry.attributes), None)
        if link is None:
            break
        entry = entry.get_DIE_from_attribute(link)
        if link == "DW_AT_type" and entry.tag not in _QUALIFIERS:
            break
    size = entry.attributes.get("DW_AT_byte_size")
    if (
        entry.tag not in ("DW_TAG_base_type", "DW_TAG_enumeration_type")
        or size is None
        or size.value not in (1, 2, 4, 8)
    ):
        return ""
    encoding = entry.attributes.get("DW_AT_encoding")
    sign = "s" if encoding is not None and encoding.value in _SIGNED else "u"
    return f"{sign}{size.value * 8}"
