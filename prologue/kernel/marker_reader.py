"""The code that reads the marker. With the symbol alone, as objcopy adds it, a kernel is no native one.

In a kernel with our patch, nothing else has the marker's bytes, and a function that ``ftrace_init`` reaches loads its
flags (arch/arm64/kernel/ftrace.c, both versions of the marker). What the kernel then does is not looked at (decision
24). Compilers inline, split and outline these functions, so names do not count.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from prologue.elf.symbols import STT_OBJECT
from prologue.kernel.binary import Binary
from prologue.kernel.held_address import LoadSearch
from prologue.kernel.init_path import ENTRY, reached
from prologue.kernel.marker import SYMBOL, Marker
from prologue.kernel.records import Bounds

SECTION: Final = ".init.data"
FLAGS: Final = 12  # where in the marker they are
_SIZE: Final = 24  # of version 1; a later one is longer
_DEEPEST: Final = 8  # calls; two or three, and one more for each part that was outlined
_MOST: Final = 4096  # functions that are looked at: the nearest ones


class ReaderProblem(NamedTuple):
    """Reason why no code is known to read the marker, and an address that says where."""

    reason: str
    place: int


def find_problem(kernel: Binary, bounds: Bounds | None, marker: Marker) -> ReaderProblem | None:
    """Find out why the marker is not one that the kernel reads; None if it is.

    Raises:
        InputError: the boot cannot be followed, for ``ftrace_init`` has no symbol.

    """
    section = kernel.image.section_at(marker.vaddr)
    if section is None or section.name != SECTION:
        return ReaderProblem(f"it is in {section.name if section else 'no section'}, not in {SECTION}", marker.vaddr)
    other = _other_object(kernel, bounds, marker)
    if other:
        return ReaderProblem(f"it shares its bytes with {other}", marker.vaddr)
    entry = kernel.symbols.require(ENTRY)
    search = LoadSearch(kernel.text, kernel.symbols, marker.vaddr + FLAGS)
    for function in reached(kernel.text, kernel.symbols, entry.vaddr, _DEEPEST, _MOST):
        if function.runs and search.is_begun_in(function):
            return None
    return ReaderProblem(f"no function that {ENTRY} reaches loads its flags", entry.vaddr)


def _other_object(kernel: Binary, bounds: Bounds | None, marker: Marker) -> str:
    """Name of what shares bytes with the marker; empty if nothing does.

    Where version 1 begins, the linker script ends the records' table: a symbol without a size begins nothing there.
    """
    end = marker.vaddr + _SIZE
    if bounds is not None and bounds.start < end and marker.vaddr < bounds.stop:
        return "the mcount records"
    symbols, begin = kernel.symbols, np.uint64(marker.vaddr)
    values, sizes = symbols.values, symbols.table["size"]
    inside = (values > begin) & (values < np.uint64(end))
    is_object = symbols.table["info"] & 15 == STT_OBJECT
    covers = is_object & (values <= begin) & (begin - values < sizes)
    for row in np.flatnonzero((inside | covers) & symbols.defined).tolist():
        name = symbols.name_of(row)
        if name and name != SYMBOL and not name.startswith("$"):
            return name
    return ""
