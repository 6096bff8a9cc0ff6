"""Entries of DWARF, as pyelftools parses them: the addresses of their code, and attributes, also inherited ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final

from prologue.errors import InputError
from prologue.installation import check_installation

DEEPEST: Final = 32  # entries that refer to each other: more are a circle, of damaged debug information


@contextmanager
def readable_dwarf(path: Path, what: str) -> Iterator[None]:
    """Turn every error of pyelftools into one of the input: it checks little, and damage ends in any of these.

    Args:
        path: the file that is read.
        what: the tables that are read, for the message, such as "debug information".

    Raises:
        InputError: they are damaged.
        InstallationError: pyelftools is of another version than prologue works with.

    """
    from elftools.common.exceptions import DWARFError, ELFError
    from elftools.construct.core import ConstructError

    try:
        yield
    except (
        ELFError, ConstructError, ValueError, KeyError, IndexError, OverflowError, OSError, DWARFError, AssertionError,
        AttributeError, NotImplementedError, TypeError,
    ) as error:  # fmt: skip
        check_installation()
        raise InputError(f"{what} cannot be read ({str(error) or type(error).__name__})", path=path) from error


def code_of(dwarf: Any, entry: Any) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of a function's or unit's code: several if its unlikely part is elsewhere."""
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
    """Return the address at which a function, inlined or not, begins to run; None if it has no code of its own."""
    attribute = entry.attributes.get("DW_AT_entry_pc")
    first = next(code_of(dwarf, entry), None)
    if attribute is None:
        return first[0] if first else None
    # An address, or a distance from the start of its code (DWARF 5, 2.18).
    return int(attribute.value) if attribute.form.startswith("DW_FORM_addr") else (first or (0, 0))[0] + attribute.value


def base_of(entry: Any) -> int:
    """Return the base of offsets in lists, until a list gives another: the start of the compilation unit."""
    low = entry.cu.get_top_DIE().attributes.get("DW_AT_low_pc")
    return int(low.value) if low is not None else 0


def inherited(entry: Any, name: str) -> Any:
    """Return an attribute of the entry, otherwise of its abstract origin or specification; None if none has it."""
    for _ in range(DEEPEST):
        if name in entry.attributes:
            return entry.attributes[name]
        link = next((n for n in ("DW_AT_abstract_origin", "DW_AT_specification") if n in entry.attributes), None)
        if link is None:
            break
        entry = entry.get_DIE_from_attribute(link)
    return None


def origin(entry: Any) -> Any:
    """Return the abstract entry that an entry is an instance of, or the entry itself."""
    for _ in range(DEEPEST):
        if "DW_AT_abstract_origin" not in entry.attributes:
            break
        entry = entry.get_DIE_from_attribute("DW_AT_abstract_origin")
    return entry


def text_of(entry: Any, name: str) -> str:
    """Return a string attribute, also of the abstract origin; empty if there is none."""
    attribute = inherited(entry, name)
    return attribute.value.decode("utf-8", "replace") if attribute is not None else ""


def number_of(entry: Any, name: str, default: int = 0) -> int:
    """Return a number attribute, also of the abstract origin; ``default`` if there is none."""
    attribute = inherited(entry, name)
    return int(attribute.value) if attribute is not None else default


def ends_path(path: str, name: str) -> bool:
    """Return whether a path is, or ends with, the parts of another: ``fs/read_write.c`` ends with ``read_write.c``."""
    whole, end = PurePosixPath(path).parts, PurePosixPath(name).parts
    return bool(end) and whole[-len(end) :] == end
