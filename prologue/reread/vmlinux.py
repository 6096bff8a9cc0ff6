"""Reads a processed vmlinux with LIEF and plain Python, sharing no code with the tool's own reader and writer.

An error in one reader is unlikely to be in the other. This one is slower and needs more memory (LIEF copies the whole
file), so the command line runs it with ``-o``, and with ``--in-place`` only on request (``--reread``).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prologue.errors import InternalError

_NOP: Final = 0xD503201F
_MOV: Final = 0xAA1E03E9
_LANDING_PADS: Final = frozenset({0xD503241F, 0xD503245F, 0xD503249F, 0xD50324DF})


@dataclass(frozen=True, slots=True)
class Reread:
    """What LIEF read: addresses, in the order of the table."""

    records: tuple[int, ...]  # zero records included
    first_slots: tuple[int, ...]


def reread(path: Path, *, processed: bool = True, moved: bool) -> Reread:
    """Read all records and check every site's pair.

    Args:
        path: a vmlinux.
        processed: whether first slots must hold the MOV (else the NOP).
        moved: whether records must point at second slots.

    Raises:
        InternalError: LIEF cannot read the file, or a record or site is not as it must be.

    """
    import lief

    lief.logging.disable()
    config = lief.ELF.ParserConfig()
    config.parse_notes = config.parse_overlay = config.parse_dyn_symbols = False
    binary = lief.ELF.parse(str(path), config)
    if binary is None:
        raise InternalError("LIEF cannot read the file", path=path)
    marks = {"__start_mcount_loc": 0, "__stop_mcount_loc": 0}
    call_ops = False
    for symbol in binary.symtab_symbols:
        name = symbol.name
        if name in marks:
            marks[str(name)] = symbol.value
        elif name == "ftrace_nop_ops":
            call_ops = True
    start, stop = marks.values()
    if not start < stop:
        raise InternalError(f"LIEF reads a record table from {start:#x} to {stop:#x}", path=path)
    text = _Text(binary)
    expected = (_MOV if processed else _NOP, _NOP)
    records = _records(binary, start, stop, path)
    slots = tuple(text.first_slot(value, moved=moved, call_ops=call_ops) for value in records if value)
    for vaddr in slots:
        pair = (text.word(vaddr), text.word(vaddr + 4))
        if pair != expected:
            raise InternalError(
                f"LIEF reads {pair[0]:08x} {pair[1]:08x} at {vaddr:#x}, expected {expected[0]:08x} {expected[1]:08x}",
                path=path,
            )
    return Reread(records, slots)


def _records(binary: Any, start: int, stop: int, path: Path) -> tuple[int, ...]:
    """Values by slot address: the RELA addend where there is one, else the slot's own value."""
    addends: dict[int, int] = {}
    for section in binary.sections:
        if _type(section) == 4 and section.flags & 2:  # SHT_RELA, SHF_ALLOC
            content = bytes(section.content)
            for offset, info, addend in struct.iter_unpack("<QQq", content[: len(content) // 24 * 24]):
                if start <= offset < stop and info & 0xFFFFFFFF == 0x403:
                    addends[offset] = addend % (1 << 64)
    homes = [
        s for s in binary.sections if s.virtual_address <= start and stop <= s.virtual_address + s.size and s.flags & 2
    ]
    if not homes:
        raise InternalError("LIEF finds no section that holds the record table", path=path)
    raw = bytes(homes[0].content)[start - homes[0].virtual_address : stop - homes[0].virtual_address]
    slots = struct.unpack(f"<{len(raw) // 8}Q", raw[: len(raw) // 8 * 8])
    return tuple(addends.get(start + 8 * k, slot) for k, slot in enumerate(slots))


def _type(section: Any) -> int:
    """``sh_type``; LIEF has no name for every value, and says so with a warning."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = section.type
    return int(getattr(kind, "value", kind))


class _Text:
    """Executable sections as LIEF reads them."""

    def __init__(self, binary: Any) -> None:
        self._parts = [
            (s.virtual_address, bytes(s.content))
            for s in binary.sections
            if s.flags & 6 == 6 and s.size and _type(s) not in (0, 8)  # SHF_ALLOC, SHF_EXECINSTR; NULL, NOBITS
        ]

    def word(self, vaddr: int) -> int:
        """The instruction at an address, 0 where there is none."""
        for base, content in self._parts:
            if base <= vaddr < base + len(content):
                return int.from_bytes(content[vaddr - base : vaddr - base + 4], "little")
        return 0

    def first_slot(self, record: int, *, moved: bool, call_ops: bool) -> int:
        """Where the record's pair begins."""
        if moved:
            return record - 4
        if call_ops:
            return record + 12 if self.word(record + 8) in _LANDING_PADS else record + 8
        return record
