"""Source lines of instructions, by DWARF's line tables: pyelftools reads them, each unit when it is first wanted.

DWARF 5, sections 6.1.2 (look-up by address) and 6.2 (line numbers).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prologue.arrays import I64, U64
from prologue.dwarf.debug_info import DebugInfo, Unit, open_debug
from prologue.dwarf.dwarf_entries import readable_dwarf
from prologue.dwarf.statements import file_names
from prologue.errors import InputError
from prologue.live.memory.ranges import TOP
from prologue.live.system.programs import Owner
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.listing import Listed


class SourceBlocks:
    """The text of ranges with a line ``FILE:LINE`` before the instructions of that line."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._lines: dict[int, LineTables] = {}
        self._texts: dict[str, list[str]] = {}

    def block(self, listed: Listed) -> bytes:
        """Write the text of a distinct range.

        Raises:
            InputError: the image has no line tables, or damaged ones.

        """
        lines, last = [f"{listed.head}\n"], ("", 0)
        if listed.program is not None:
            owner = listed.program.pieces[int(self._known.table["piece"][listed.number])].owner
            tables = self._lines.setdefault(id(owner), LineTables(owner))
        for insn in listed.insns:
            place = tables.line((insn.vaddr - owner.slide) & TOP)
            if place and place != last:
                lines.append(f"  {place[0]}:{place[1]}{self._source(*place)}\n")
                last = place
            lines.append(f"    {insn.vaddr:x}: {insn.word:08x}  {insn.text}\n")
        return "".join(lines).encode("utf-8", "backslashreplace")

    def _source(self, file: str, line: int) -> str:
        """Read a line of source, if the file is on this machine; otherwise return an empty text."""
        if file not in self._texts:
            try:
                self._texts[file] = Path(file).read_text("utf-8", "replace").splitlines()
            except OSError:
                self._texts[file] = []
        text = self._texts[file]
        return f"  {text[line - 1].strip()}" if 0 < line <= len(text) else ""


class UnitLines(NamedTuple):
    """The line table of a unit: row k is of the code from ``addresses[k]`` up to the next row's; shape (n,).

    ``lines`` has -1 for code of no line, and ``file`` the rows in ``files``.
    """

    addresses: U64
    lines: I64
    files: list[str]
    file: I64


class LineTables:
    """File and line of addresses of one image, as it is linked or placed."""

    def __init__(self, owner: Owner) -> None:
        self._image = owner.image
        self._units: dict[int, UnitLines] = {}

    @cached_property
    def _debug(self) -> DebugInfo | None:
        debug = open_debug(self._image, relocates=False)
        if debug is None and self._image.section(".eh_frame") is None:  # a program may be stripped
            reason = "has no debug information: take the vmlinux of the -dbg package"
            raise InputError(reason, path=self._image.path)
        return debug

    def line(self, vaddr: int) -> tuple[str, int] | None:
        """Return file and line of an address; None if the tables have no line of it.

        Raises:
            InputError: there are no line tables, or they are damaged.

        """
        with readable_dwarf(self._image.path, "its line tables"):
            unit = self._debug.unit_at(vaddr) if self._debug is not None else None
            if unit is None:
                return None
            addresses, lines, files, file = self._lines(unit)
        row = int(np.searchsorted(addresses, np.uint64(vaddr), side="right")) - 1
        if row < 0 or lines[row] < 0:
            return None
        return files[int(file[row])], int(lines[row])

    def units_of(self, vaddrs: U64) -> Iterator[tuple[UnitLines, int, int]]:
        """Yield the units that have one of these addresses, with each span of their code: its first address, its end.

        Raises:
            InputError: there are no line tables, or they are damaged.

        """
        with readable_dwarf(self._image.path, "its line tables"):
            spans = self._debug.spans if self._debug is not None else []
        starts, stops = (np.array([span[k] for span in spans], np.uint64) for k in (0, 1))
        rows = np.searchsorted(starts, vaddrs, side="right") - 1
        rows = np.unique(rows[(rows >= 0) & (vaddrs < np.append(stops, np.uint64(0))[rows])])
        wanted = {spans[row][2] for row in rows.tolist()}
        for start, stop, offset in spans:
            if offset in wanted and self._debug is not None:
                with readable_dwarf(self._image.path, "its line tables"):
                    unit = self._lines(self._debug.unit(offset))
                yield unit, start, stop

    def _lines(self, unit: Unit) -> UnitLines:
        if unit.offset not in self._units:
            rows = sorted(unit.line_rows(), key=lambda row: (row[0], not row[1].end_sequence))
            addresses = np.array([address for address, _ in rows], np.uint64)
            lines = np.array([-1 if state.end_sequence else state.line for _, state in rows], np.int64)
            names = [str(Path(unit.directory) / name) for name in file_names(unit)] or [""]
            file = np.array([min(state.file, len(names) - 1) for _, state in rows], np.int64)
            self._units[unit.offset] = UnitLines(addresses, lines, names, file)
            unit.debug.trim()
        return self._units[unit.offset]
