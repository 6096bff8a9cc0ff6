"""Cores of ours; and captures, which are some with what a kernel said of itself.

A capture has the kernel's image and the modules' memory. objdump, gdb and drgn can open it: segments have the kernel's
addresses, and VMCOREINFO is there as in every core.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from prologue.documents import parse_json
from prologue.elf.sections import PHDR
from prologue.errors import InputError
from prologue.live.memory.core import NO_PADDR, CoreFile, Note, PlainCore
from prologue.live.memory.ranges import PAGE
from prologue.live.memory.state import KernelState, state_from_data
from prologue.outputs import new_file

_ET_CORE, _EM_AARCH64 = 4, 183
_EHDR: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_PT_LOAD, _PT_NOTE, _PF_R, _PF_X = 1, 4, 4, 1


class Piece(NamedTuple):
    """Memory of a core: its address, its physical address or ``NO_PADDR``, and its bytes.

    ``unstable`` are addresses of its words that did not come to rest.
    """

    vaddr: int
    paddr: int
    data: bytes
    unstable: tuple[int, ...] = ()


def write_core(out: Path, notes: Sequence[Note], pieces: Sequence[Piece], *, joined: bool = False) -> int:
    """Write a core: whole or not at all, readable by its owner only; compressed with zstd if the name ends in .zst.

    With ``joined``, all pieces, which ascend, are one segment of a file with holes: zeros that take no space.

    Returns:
        Its size in bytes.

    Raises:
        OutputError: ``out`` cannot be written.

    """
    noted = b"".join(map(_packed, notes))
    segments = [(piece.vaddr, piece.paddr, len(piece.data)) for piece in pieces]
    if joined:
        segments = [(pieces[0].vaddr, NO_PADDR, pieces[-1].vaddr + len(pieces[-1].data) - pieces[0].vaddr)]
    count = 1 + len(segments)
    at = _EHDR.size + count * PHDR.size
    headers = [PHDR.pack(_PT_NOTE, _PF_R, at, 0, 0, len(noted), 0, 4)]
    padding = -(at + len(noted)) % PAGE
    at += len(noted) + padding
    first = at
    for vaddr, paddr, size in segments:
        align = PAGE if vaddr % PAGE == at % PAGE else 1
        headers.append(PHDR.pack(_PT_LOAD, _PF_R | _PF_X, at, vaddr, paddr, size, size, align))
        at += size
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    head = _EHDR.pack(ident, _ET_CORE, _EM_AARCH64, 1, 0, _EHDR.size, 0, 0, _EHDR.size, PHDR.size, count, 0, 0, 0)
    with new_file(out, mode=0o600) as temporary, temporary.open("wb") as stream:
        sink: Any = stream
        if out.suffix == ".zst":
            import zstandard

            sink = zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(stream, closefd=False)
        sink.write(b"".join((head, *headers, noted, b"\0" * padding)))
        for piece in pieces:
            if joined:
                stream.seek(first + piece.vaddr - pieces[0].vaddr)
            sink.write(piece.data)
        if sink is not stream:
            sink.close()
        return stream.tell()


def _packed(note: Note) -> bytes:
    """Return a note (System V gABI, "Note Section"): name and data are padded to 4 bytes."""
    label = note.name.encode() + b"\0"
    padded = [part + b"\0" * (-len(part) % 4) for part in (label, note.data)]
    return struct.pack("<III", len(label), len(note.data), note.type) + b"".join(padded)


SCHEMA: Final = "prologue.capture/1"
NOTE: Final = "PROLOGUE"
_NOTE_TYPE: Final = 1


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
            self.one_moment = bool(note.get("settled", not self.unstable))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise InputError(f"damaged capture: its note {NOTE} cannot be parsed ({error})", path=self.name) from error

    def state(self, vmlinux: Path | None = None) -> KernelState:
        """Return modules and symbols at the time of the capture."""
        return self._state


def write_capture(  # noqa: PLR0913 - what a capture has
    out: Path, source: str, state: KernelState, vmcoreinfo: bytes, pieces: Sequence[Piece], *, one_moment: bool = True
) -> int:
    """Write a capture: whole or not at all, readable by its owner only; compressed with zstd if the name ends in .zst.

    ``one_moment`` if data and text are of one.

    Returns:
        Its size in bytes.

    Raises:
        OutputError: ``out`` cannot be written.

    """
    unstable = [hex(vaddr) for piece in pieces for vaddr in piece.unstable]
    note = {"schema": SCHEMA, "source": source, "unstable": unstable, "settled": one_moment, **state.as_data()}
    state_note = Note(NOTE, _NOTE_TYPE, json.dumps(note, separators=(",", ":")).encode())
    return write_core(out, (Note("VMCOREINFO", 0, vmcoreinfo), state_note), pieces)
