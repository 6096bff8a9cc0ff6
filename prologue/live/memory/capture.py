"""Captures: ELF cores of ours, with the kernel's image, the modules' memory, and what the kernel said of itself.

objdump, gdb and drgn can open them: segments have the kernel's addresses, and VMCOREINFO is there as in every core.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from prologue.documents import parse_json
from prologue.elf.structs import PHDR
from prologue.errors import InputError
from prologue.live.memory.core import CoreFile
from prologue.live.memory.files import PlainCore
from prologue.live.memory.ranges import PAGE
from prologue.live.memory.state import KernelState, state_from_data
from prologue.outputs import new_file

SCHEMA: Final = "prologue.capture/1"
NOTE: Final = "PROLOGUE"
_NOTE_TYPE: Final = 1
_ET_CORE, _EM_AARCH64 = 4, 183
_EHDR: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_PT_LOAD, _PT_NOTE, _PF_R, _PF_X = 1, 4, 4, 1


class Piece(NamedTuple):
    """Memory that goes into a capture; ``unstable`` are addresses of its words that did not come to rest."""

    vaddr: int
    paddr: int
    data: bytes
    unstable: tuple[int, ...]


class Capture(PlainCore):
    """A capture that was read.

    Raises:
        InputError: it is damaged, or of a version that is not known.

    """

    def __init__(self, core: CoreFile) -> None:
        super().__init__(core)
        try:
            note = parse_json(core.note(NOTE) or b"")
            if note["schema"] != SCHEMA:
                raise InputError(f"is a capture of schema {note['schema']!r}, expected {SCHEMA}", path=self.name)
            self._state = state_from_data(note)
            self.unstable = tuple(int(vaddr, 16) for vaddr in note["unstable"])
            self.settled = bool(note.get("settled", not self.unstable))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"damaged capture: its note {NOTE} cannot be parsed ({error})", path=self.name) from error

    def state(self, vmlinux: Path | None = None) -> KernelState:
        """Return modules and symbols at the time of the capture."""
        return self._state


def write_capture(  # noqa: PLR0913 - what a capture has
    out: Path, source: str, state: KernelState, vmcoreinfo: bytes, pieces: Sequence[Piece], *, settled: bool = True
) -> int:
    """Write a capture: whole or not at all, readable by its owner only; compressed with zstd if the name ends in .zst.

    ``settled`` if data and text are of one moment.

    Returns:
        Its size in bytes.

    Raises:
        OutputError: ``out`` cannot be written.

    """
    unstable = [hex(vaddr) for piece in pieces for vaddr in piece.unstable]
    note = {"schema": SCHEMA, "source": source, "unstable": unstable, "settled": settled, **state.as_data()}
    notes = _note("VMCOREINFO", 0, vmcoreinfo)
    notes += _note(NOTE, _NOTE_TYPE, json.dumps(note, separators=(",", ":")).encode())
    return _write(out, notes, pieces)


def _note(name: str, kind: int, data: bytes) -> bytes:
    """Make a note (System V gABI, "Note Section"): name and data are padded to 4 bytes."""
    label = name.encode() + b"\0"
    padded = [part + b"\0" * (-len(part) % 4) for part in (label, data)]
    return struct.pack("<III", len(label), len(data), kind) + b"".join(padded)


def _write(out: Path, notes: bytes, pieces: Sequence[Piece]) -> int:
    """Write the core; return its size in the file system."""
    count = 1 + len(pieces)
    at = _EHDR.size + count * PHDR.size
    headers = [PHDR.pack(_PT_NOTE, _PF_R, at, 0, 0, len(notes), 0, 4)]
    padding = -(at + len(notes)) % PAGE
    at += len(notes) + padding
    for piece in pieces:
        size = len(piece.data)
        align = PAGE if piece.vaddr % PAGE == at % PAGE else 1
        headers.append(PHDR.pack(_PT_LOAD, _PF_R | _PF_X, at, piece.vaddr, piece.paddr, size, size, align))
        at += size
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head = _EHDR.pack(ident, _ET_CORE, _EM_AARCH64, 1, 0, _EHDR.size, 0, 0, _EHDR.size, PHDR.size, count, 0, 0, 0)
    with new_file(out, mode=0o600) as temporary, temporary.open("wb") as stream:
        sink: Any = stream
        if out.suffix == ".zst":
            import zstandard

            sink = zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(stream, closefd=False)
        for part in (head, *headers, notes, b"\0" * padding, *(piece.data for piece in pieces)):
            sink.write(part)
        if sink is not stream:
            sink.close()
        return stream.tell()
