"""Source lines of instructions, by DWARF's line tables: pyelftools reads them, each unit when it is first wanted.

DWARF 5, sections 6.1.2 (look-up by address) and 6.2 (line numbers).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prologue.arrays import I64, U64
from prologue.elf.dwarf_entries import readable_dwarf
from prologue.errors import InputError
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.programs import Owner
from prologue.trace.ranges import TOP
from prologue.trace.views.listed import Listed


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
    """File and line of addresses of one image, as it is linked."""

    def __init__(self, owner: Owner) -> None:
        self._path = owner.image.path
        self._content = owner.image.content
        self._units: dict[int, UnitLines] = {}
        self._dwarf: Any = None
        self._starts = np.zeros(0, np.uint64)
        self._stops = np.zeros(0, np.uint64)
        self._offsets: list[int] = []

    def line(self, vaddr: int) -> tuple[str, int] | None:
        """Return file and line of an address; None if the tables have no line of it.

        Raises:
            InputError: there are no line tables, or they are damaged.

        """
        with readable_dwarf(self._path, "its line tables"):
            if self._dwarf is None:
                self._open()
            unit = int(np.searchsorted(self._starts, np.uint64(vaddr), side="right")) - 1
            if unit < 0 or vaddr >= int(self._stops[unit]):
                return None
            addresses, lines, files, file = self._unit(self._offsets[unit])
        row = int(np.searchsorted(addresses, np.uint64(vaddr), side="right")) - 1
        if row < 0 or lines[row] < 0:
            return None
        return files[int(file[row])], int(lines[row])

    def units_of(self, vaddrs: U64) -> Iterator[tuple[UnitLines, int, int]]:
        """Yield the units that have one of these addresses, with each span of their code: its first address, its end.

        Raises:
            InputError: there are no line tables, or they are damaged.

        """
        with readable_dwarf(self._path, "its line tables"):
            if self._dwarf is None:
                self._open()
        rows = np.searchsorted(self._starts, vaddrs, side="right") - 1
        rows = np.unique(rows[(rows >= 0) & (vaddrs < self._stops[np.maximum(rows, 0)])])
        wanted = {self._offsets[row] for row in rows.tolist()}
        for start, stop, offset in zip(self._starts.tolist(), self._stops.tolist(), self._offsets, strict=True):
            if offset in wanted:
                with readable_dwarf(self._path, "its line tables"):
                    unit = self._unit(offset)
                yield unit, start, stop

    def _open(self) -> None:
        import io

        from elftools.elf.elffile import ELFFile

        content: Any = self._content
        elf = ELFFile(io.BytesIO(content) if isinstance(content, bytes) else self._path.open("rb"))
        if not elf.has_dwarf_info():
            raise InputError("has no debug information: take the vmlinux of the -dbg package", path=self._path)
        self._dwarf = elf.get_dwarf_info(relocate_dwarf_sections=False)
        spans = sorted(self._spans())
        self._starts = np.array([span[0] for span in spans], np.uint64)
        self._stops = np.array([span[1] for span in spans], np.uint64)
        self._offsets = [span[2] for span in spans]

    def _spans(self) -> list[tuple[int, int, int]]:
        """Return the spans of code of all units: first address, end, and offset of the unit."""
        ranges = self._dwarf.get_aranges()
        if ranges is not None and ranges.entries:  # GCC makes .debug_aranges, Clang does not
            return [(e.begin_addr, e.begin_addr + e.length, e.info_offset) for e in ranges.entries if e.begin_addr]
        from prologue.elf.dwarf_entries import code_of

        spans = []
        for unit in self._dwarf.iter_CUs():
            spans += [(low, high, unit.cu_offset) for low, high in code_of(self._dwarf, unit.get_top_DIE()) if low]
        return spans

    def _unit(self, offset: int) -> UnitLines:
        if offset not in self._units:
            unit = self._dwarf.get_CU_at(offset)
            program = self._dwarf.line_program_for_CU(unit)
            directory = unit.get_top_DIE().attributes.get("DW_AT_comp_dir")
            base = directory.value.decode("utf-8", "replace") if directory is not None else ""
            rows = [] if program is None else [e.state for e in program.get_entries() if e.state is not None]
            rows.sort(key=lambda state: (state.address, not state.end_sequence))
            addresses = np.array([state.address for state in rows], np.uint64)
            lines = np.array([-1 if state.end_sequence else state.line for state in rows], np.int64)
            names = [] if program is None else _file_names(program, base)
            file = np.array([min(state.file, max(len(names) - 1, 0)) for state in rows], np.int64)
            self._units[offset] = UnitLines(addresses, lines, names or [""], file)
        return self._units[offset]


def _file_names(program: Any, base: str) -> list[str]:
    """Return names by their numbers in a line table: from 0 on in DWARF 5, from 1 on before."""
    header = program.header
    old = header["version"] < 5
    directories = (
        [base, *(d.decode("utf-8", "replace") for d in header["include_directory"])]
        if old
        else [d.decode("utf-8", "replace") for d in header["include_directory"]]
    )
    names = [base] if old else []
    for entry in header["file_entry"]:
        index = entry["dir_index"]
        folder = directories[index] if index < len(directories) else ""
        name = entry["name"].decode("utf-8", "replace")
        whole = Path(folder) / name if folder.startswith("/") else Path(base) / folder / name
        names.append(str(whole))
    return names
