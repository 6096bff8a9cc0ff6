"""Captures: ELF cores of ours, with the kernel's image, the modules' memory, and what the kernel said of itself.

objdump, gdb and drgn can open them: segments have the kernel's addresses, and VMCOREINFO is there as in every core.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from prologue.documents import parse_json
from prologue.errors import InputError
from prologue.live.memory.core import CoreFile, Note, PlainCore
from prologue.live.memory.state import KernelState, state_from_data
from prologue.live.memory.write_core import Piece, write_core

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
    own = Note(NOTE, _NOTE_TYPE, json.dumps(note, separators=(",", ":")).encode())
    return write_core(out, (Note("VMCOREINFO", 0, vmcoreinfo), own), pieces)
