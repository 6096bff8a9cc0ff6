"""Programs of processes: each binary that ran, at the addresses where a process had it.

They are files with the build-id that the trace has, found as perf finds them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from prologue.arrays import I64
from prologue.elf.image import ElfImage
from prologue.elf.notes import gnu_build_id, matches_perf
from prologue.errors import InputError
from prologue.live.memory.ranges import TOP
from prologue.live.system.programs import Owner, Program, TextPiece
from prologue.perf.address_spaces import AddressSpaces, FileMap
from prologue.trace.path.binary_names import BinaryNames
from prologue.trace.ranges import Batch, Tally
from prologue.trace.readers.intern import DistinctRows


class UserBinary(NamedTuple):
    """A file that processes execute. ``is_checked``: its build-id is that of the trace, which may have none."""

    image: ElfImage
    symbols: BinaryNames
    is_checked: bool


class BinaryFiles:
    """The files of this machine that may be what ran.

    A file is below ``--symfs``, in perf's cache (``$PERF_BUILDID_DIR``, ``~/.debug``), or at its own path. Without a
    build-id in the trace only the first of these is taken, since a user named it.
    """

    def __init__(self, symfs: Path | None) -> None:
        self._symfs = symfs
        self._known: dict[tuple[str, str], UserBinary | str] = {}
        self._cache = Path(os.environ.get("PERF_BUILDID_DIR") or Path.home() / ".debug")

    def open(self, mapped: FileMap) -> UserBinary | str:
        """Return the binary of a map, or why there is none."""
        key = mapped.path, mapped.build_id
        if key not in self._known:
            self._known[key] = self._find(mapped) if mapped.is_file else "not a file"
        return self._known[key]

    def _find(self, mapped: FileMap) -> UserBinary | str:
        why = "" if mapped.build_id or self._symfs else "the trace has no build-id of it, see --symfs"
        for path in self._candidates(mapped):
            if not path.is_file():
                continue
            try:
                image = ElfImage(path)
                build_id = gnu_build_id(image)
                if not mapped.build_id or matches_perf(build_id, mapped.build_id):
                    return UserBinary(image, BinaryNames(image), is_checked=bool(mapped.build_id))
                why = why or f"{path} has build-id {build_id or 'none'}, {mapped.build_id} ran"
            except InputError as error:
                why = why or str(error)
        return why or "not on this machine, see --symfs"

    def _candidates(self, mapped: FileMap) -> Iterator[Path]:
        if self._symfs is not None:
            yield self._symfs / mapped.path.lstrip("/")
        if mapped.build_id:
            kept = self._cache / ".build-id" / mapped.build_id[:2] / mapped.build_id[2:]
            yield from (kept / "elf", kept)
            yield Path(mapped.path)


class Processes:
    """The code of processes, by thread and address; ``programs`` grows as binaries are met in the trace."""

    def __init__(
        self, spaces: AddressSpaces, pid_of: Callable[[int], int | None], files: BinaryFiles, account: Tally
    ) -> None:
        """Take all maps of code. ``pid_of`` returns the process of a thread, None if that is not sure."""
        self._spaces, self._pid_of, self._files, self._account = spaces, pid_of, files, account
        self._rows: dict[tuple[str, str, int], int] = {}
        self._places = DistinctRows([("task", "<u4"), ("start", "<u8"), ("row", "<i8")])  # that were met in the trace
        self.programs: list[Program] = []

    def read(self, tid: int, vaddr: int) -> memoryview | None:
        """Return the code of a thread from an address on, as its file has it; None if not known."""
        row = self._row(tid, vaddr)
        return None if row < 0 else self.programs[row].code_from(vaddr)

    def why_not(self, tid: int, vaddr: int) -> str:
        """Explain why the code at an address is not known; empty if the trace has no file there, or several."""
        mapped = self._map(tid, vaddr)
        if mapped is None:
            return ""
        binary = self._files.open(mapped)
        return f"{mapped.path}: {binary}" if isinstance(binary, str) else mapped.path

    def rows(self, batch: Batch, chosen: I64) -> I64:
        """Return the row in ``programs`` of each chosen range of a batch, or -1; shape of ``chosen``."""
        ranges, have = batch.ranges[chosen], len(self._places.table)
        numbers = self._places.numbers(ranges["task"], ranges["start"])
        new = self._places.table[have:]
        new["row"] = [self._row(batch.tasks[task].tid, start) for task, start, _ in new.tolist()]
        rows: I64 = self._places.table["row"][numbers]
        return rows

    def open_with(self, names: Iterable[str]) -> None:
        """Add the programs of all binaries that have one of these symbols, whether they are in the trace or not."""
        for mapped, binary in self._binaries():
            if any(binary.symbols.has(name) for name in names):
                self._row_of_map(mapped)

    def function_names(self) -> set[str]:
        """Return the names of the functions of all binaries."""
        return {name for _, binary in self._binaries() for name in binary.symbols.function_names()}

    def _binaries(self) -> Iterator[tuple[FileMap, UserBinary]]:
        for mapped in sorted(self._spaces.maps(), key=lambda mapped: (mapped.path, mapped.start)):
            binary = self._files.open(mapped)
            if not isinstance(binary, str):
                yield mapped, binary

    def _map(self, tid: int, vaddr: int) -> FileMap | None:
        pid = self._pid_of(tid)
        return None if pid is None else self._spaces.at(pid, vaddr)

    def _row(self, tid: int, vaddr: int) -> int:
        mapped = self._map(tid, vaddr)
        return -1 if mapped is None else self._row_of_map(mapped)

    def _row_of_map(self, mapped: FileMap) -> int:
        key = mapped.path, mapped.build_id, mapped.start - mapped.offset
        if key not in self._rows:
            program = self._program(mapped)
            self._rows[key] = -1 if program is None else len(self.programs)
            if program is not None:
                self.programs.append(program)
        return self._rows[key]

    def _program(self, mapped: FileMap) -> Program | None:
        binary = self._files.open(mapped)
        if isinstance(binary, str):
            return None
        image, end = binary.image, mapped.offset + mapped.end - mapped.start
        first = next(
            (text for text in image.text_sections if mapped.offset < text.offset + text.size and text.offset < end),
            None,
        )
        if first is None:
            return None
        if not binary.is_checked:
            many = "binaries of --symfs not compared, as the trace has no build-id"
            self._account.add(many, singular=many.replace("binaries", "binary"))
        slide = mapped.start + first.offset - mapped.offset - first.addr
        owner = Owner(Path(mapped.path).name, image, binary.symbols, slide)
        sections = [text for text in image.text_sections if text.addr - text.offset == first.addr - first.offset]
        pieces = [TextPiece(text.addr + slide & TOP, image.view(text, "<u4"), owner) for text in sections]
        return Program(mapped.path, owner, pieces)
