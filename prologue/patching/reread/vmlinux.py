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

NOP: Final = 0xD503201F
MOV: Final = 0xAA1E03E9
LANDING_PADS: Final = frozenset({0xD503241F, 0xD503245F, 0xD503249F, 0xD50324DF})


@dataclass(frozen=True, slots=True)
class RereadRecords:
    """Addresses that LIEF read, in the order of the table."""

    records: tuple[int, ...]  # zero records included
    first_slots: tuple[int, ...]  # in the order of the records


def reread(path: Path, *, processed: bool = True, moved: bool) -> RereadRecords:
    """Read all records and check every site's pair.

    Args:
        path: a vmlinux.
        processed: whether first slots must hold the MOV (otherwise the NOP).
        moved: whether records must point at second slots.

    With version 2 of the marker, a processed kernel's records are what its table of offsets says, or sorted addresses.

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
    marks = {"__start_mcount_loc": 0, "__stop_mcount_loc": 0, "_text": 0, "__ftrace_prologue_marker": 0}
    call_ops = False
    for symbol in binary.symtab_symbols:
        name = symbol.name
        if name in marks:
            marks[str(name)] = symbol.value
        elif name == "ftrace_nop_ops":
            call_ops = True
    start, stop, base, marker = marks.values()
    if not start < stop:
        raise InternalError(f"LIEF reads a record table from {start:#x} to {stop:#x}", path=path)
    text = _Text(binary)
    expected = (MOV if processed else NOP, NOP)
    offsets = _counted_offsets(binary, marker) if processed and marker else None
    if offsets is None:
        records = _records(binary, start, stop, path)
    else:
        records = _offset_records(binary, range(start, stop), path, base=base, count=offsets)
    slots = tuple(text.first_slot(value, moved=moved, call_ops=call_ops) for value in records if value)
    for vaddr in slots:
        pair = (text.word(vaddr), text.word(vaddr + 4))
        if pair != expected:
            raise InternalError(
                f"LIEF reads {pair[0]:08x} {pair[1]:08x} at {vaddr:#x}, expected {expected[0]:08x} {expected[1]:08x}",
                path=path,
            )
    return RereadRecords(records, slots)


def _counted_offsets(binary: Any, marker: int) -> int | None:
    """Return the number of offsets in the table; None if it holds addresses."""
    raw = _bytes_at(binary, marker, 24)
    version, flags, sites = struct.unpack_from("<IIQ", raw, 8)
    return int(sites) if version == 2 and flags == 3 else None  # BUILT and OFFSETS


def _offset_records(binary: Any, table: range, path: Path, *, base: int, count: int) -> tuple[int, ...]:
    """Read second slots by their offsets from ``_text``; nothing may relocate them."""
    touched = [at for at in (*_addends(binary, 0), *_relr(binary)) if table.start - 8 < at < table.stop]
    if touched:
        raise InternalError(f"LIEF reads a relocation of {touched[0]:#x}, in the table of offsets", path=path)
    raw = _table(binary, table.start, table.stop, path)
    half = struct.unpack(f"<{len(raw) // 8}I", raw[: len(raw) // 2])
    if any(half[count:]) or count > len(half):
        raise InternalError(f"LIEF reads {sum(map(bool, half))} offsets, and the marker counts {count}", path=path)
    return tuple(base + offset for offset in half[:count])


def _records(binary: Any, start: int, stop: int, path: Path) -> tuple[int, ...]:
    """Read values by slot address: the RELA addend if there is one, otherwise the slot's own value."""
    addends = {at: addend for at, addend in _addends(binary, 0x403).items() if start <= at < stop}
    raw = _table(binary, start, stop, path)
    slots = struct.unpack(f"<{len(raw) // 8}Q", raw[: len(raw) // 8 * 8])
    return tuple(addends.get(start + 8 * k, slot) for k, slot in enumerate(slots))


def _addends(binary: Any, kind: int) -> dict[int, int]:
    """Read the addends of RELA by address, of all types that are not NONE if ``kind`` is 0."""
    addends: dict[int, int] = {}
    for section in binary.sections:
        if type_number(section) == 4 and section.flags & 2:  # SHT_RELA, SHF_ALLOC
            content = bytes(section.content)
            for offset, info, addend in struct.iter_unpack("<QQq", content[: len(content) // 24 * 24]):
                kinds = info & 0xFFFFFFFF
                if kinds == kind or (not kind and kinds not in (0, 256)):
                    addends[offset] = addend % (1 << 64)
    return addends


def _relr(binary: Any) -> list[int]:
    """Return the addresses that RELR relocates."""
    places, where = list[int](), 0
    for section in binary.sections:
        if section.name == ".relr.dyn" or type_number(section) == 19:  # SHT_RELR
            content = bytes(section.content)
            for (word,) in struct.iter_unpack("<Q", content[: len(content) // 8 * 8]):
                if not word & 1:
                    places.append(word)
                    where = word + 8
                    continue
                places += [where + 8 * bit for bit in range(63) if word >> (bit + 1) & 1]
                where += 63 * 8
    return places


def _table(binary: Any, start: int, stop: int, path: Path) -> bytes:
    raw = _bytes_at(binary, start, stop - start)
    if not raw:
        raise InternalError("LIEF finds no section that holds the record table", path=path)
    return raw


def _bytes_at(binary: Any, start: int, size: int) -> bytes:
    """Read bytes of one allocated section; empty if none has them."""
    for section in binary.sections:
        low = section.virtual_address
        if section.flags & 2 and low <= start and start + size <= low + section.size:
            return bytes(section.content)[start - low : start - low + size]
    return b""


def type_number(item: Any) -> int:
    """Return a section's or a relocation's type; LIEF has no name for every value, and says so with a warning."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = item.type
    return int(getattr(kind, "value", kind))


class _Text:
    """Executable sections as LIEF reads them."""

    def __init__(self, binary: Any) -> None:
        self._parts = [
            (s.virtual_address, bytes(s.content))
            for s in binary.sections
            if s.flags & 6 == 6 and s.size and type_number(s) not in (0, 8)  # SHF_ALLOC, SHF_EXECINSTR; NULL, NOBITS
        ]

    def word(self, vaddr: int) -> int:
        """Return the instruction at an address, 0 if there is none."""
        for base, content in self._parts:
            if base <= vaddr < base + len(content):
                return int.from_bytes(content[vaddr - base : vaddr - base + 4], "little")
        return 0

    def first_slot(self, record: int, *, moved: bool, call_ops: bool) -> int:
        """Return where the record's pair starts."""
        if moved:
            return record - 4
        if call_ops:
            return record + 12 if self.word(record + 8) in LANDING_PADS else record + 8
        return record
