"""Entries of DWARF, as pyelftools parses them: where their code is, and their attributes, inherited ones included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

DEEPEST: Final = 32  # entries that refer to each other: more are a circle, of damaged debug information


def code_of(dwarf: Any, entry: Any) -> Iterator[tuple[int, int]]:
    """The addresses of a function or unit: one run, or several, if a function's unlikely part stands elsewhere."""
    from elftools.dwarf.ranges import BaseAddressEntry

    low, high = entry.attributes.get("DW_AT_low_pc"), entry.attributes.get("DW_AT_high_pc")
    if low is not None and high is not None:
        # DW_FORM_addr is an address, every other form a size.
        yield low.value, high.value if high.form == "DW_FORM_addr" else low.value + high.value
    elif "DW_AT_ranges" in entry.attributes:
        base = base_of(entry)
        for item in dwarf.range_lists().get_range_list_at_offset(entry.attributes["DW_AT_ranges"].value, entry.cu):
            if isinstance(item, BaseAddressEntry):
                base = item.base_address
            else:
                start = 0 if item.is_absolute else base
                yield start + item.begin_offset, start + item.end_offset


def entry_pc(dwarf: Any, entry: Any) -> int | None:
    """Where a function, or an inlined one, begins to run; None if it has no code of its own."""
    attribute = entry.attributes.get("DW_AT_entry_pc")
    first = next(code_of(dwarf, entry), None)
    if attribute is None:
        return first[0] if first else None
    # An address, or a distance from where its code begins (DWARF 5, 2.18).
    return int(attribute.value) if attribute.form.startswith("DW_FORM_addr") else (first or (0, 0))[0] + attribute.value


def base_of(entry: Any) -> int:
    """What offsets in lists are from, until a list says otherwise: the start of the compilation unit."""
    low = entry.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
    return int(low.value) if low is not None else 0


def inherited(entry: Any, name: str) -> Any:
    """An attribute of the entry or, as for functions that are also inlined, of its abstract origin; None if neither."""
    for _ in range(DEEPEST):
        if name in entry.attributes:
            return entry.attributes[name]
        link = next((n for n in ("DW_AT_abstract_origin", "DW_AT_specification") if n in entry.attributes), None)
        if link is None:
            break
        entry = entry.get_DIE_from_attribute(link)
    return None


def origin(entry: Any) -> Any:
    """The abstract entry that an entry is an instance of, or itself."""
    for _ in range(DEEPEST):
        if "DW_AT_abstract_origin" not in entry.attributes:
            break
        entry = entry.get_DIE_from_attribute("DW_AT_abstract_origin")
    return entry


def text_of(entry: Any, name: str) -> str:
    """A string attribute, also of the abstract origin; empty if there is none."""
    attribute = inherited(entry, name)
    return attribute.value.decode("utf-8", "replace") if attribute is not None else ""


def number_of(entry: Any, name: str, default: int = 0) -> int:
    """A number attribute, also of the abstract origin."""
    attribute = inherited(entry, name)
    return int(attribute.value) if attribute is not None else default


def ends_path(path: str, name: str) -> bool:
    """Whether a path is, or ends with, the parts of another: ``fs/read_write.c`` ends with ``read_write.c``."""
    whole, end = PurePosixPath(path).parts, PurePosixPath(name).parts
    return bool(end) and whole[-len(end) :] == end
