"""Reads a module with LIEF and plain Python, sharing no code with the tool's own reader and writer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from prologue.errors import InputError, InternalError
from prologue.patching.reread.vmlinux import LANDING_PADS, MOV, NOP, type_number

_RECORDS: Final = "__patchable_function_entries"
_NONE: Final = (0, 256)  # both are R_AARCH64_NONE
_TYPE_BITS: Final = (1 << 27) - 1  # LIEF has the machine in those above
Place = tuple[int, int]  # index of the section, whose name others may have, and offset in it


def reread_module(content: bytes, path: Path, *, processed: bool) -> tuple[Place, ...]:
    """Find every record's pair and check it.

    Args:
        content: the module, decompressed; an appended signature does not matter.
        path: for messages.
        processed: whether first slots must hold the MOV (otherwise the NOP).

    Returns:
        Where the pairs are, in the order of their records' slots.

    Raises:
        InternalError: LIEF cannot read the file, or a pair is not as it must be.

    """
    import lief

    lief.logging.disable()
    binary = lief.ELF.parse(list(content))
    if binary is None:
        raise InternalError("LIEF cannot read the file", path=path)
    sections = list(binary.sections)
    text = {k: bytes(s.content) for k, s in enumerate(sections) if s.flags & 6 == 6 and s.size}
    expected = (MOV if processed else NOP, NOP)
    places = _first_slots(text, _records(binary, sections, path), _function_sizes(binary, sections))
    for section, first in places:
        pair = _word(text.get(section, b""), first), _word(text.get(section, b""), first + 4)
        if pair != expected:
            raise InternalError(
                f"LIEF reads {pair[0]:08x} {pair[1]:08x} at {sections[section].name!s}+{first:#x}, "
                f"expected {expected[0]:08x} {expected[1]:08x}",
                path=path,
            )
    return places


def _records(binary: Any, sections: list[Any], path: Path) -> list[Place]:
    """Return the place that each record's relocation points at, in the order of the slots."""
    records = []
    for relocation in binary.object_relocations:
        if relocation.section is not None and relocation.section.name == _RECORDS:
            if type_number(relocation) & _TYPE_BITS in _NONE:
                continue
            symbol = relocation.symbol
            if symbol is None:
                raise InternalError("LIEF: a record's relocation names no symbol", path=path)
            if symbol.shndx >= len(sections):
                raise InputError(
                    f"a record refers to section {symbol.shndx}, which is not there: damaged symbols", path=path
                )
            records.append(((relocation.section.offset, relocation.address), symbol, relocation))
    records.sort(key=lambda item: item[0])
    return [(symbol.shndx, symbol.value + relocation.addend) for _, symbol, relocation in records]


def _function_sizes(binary: Any, sections: list[Any]) -> dict[Place, int]:
    """Return the size of the longest function at each place."""
    sizes: dict[Place, int] = {}
    for symbol in binary.symtab_symbols:
        if symbol.is_function and 0 < symbol.shndx < len(sections):
            place = symbol.shndx, symbol.value
            sizes[place] = max(symbol.size, sizes.get(place, 0))
    return sizes


def _word(code: bytes, offset: int) -> int:
    return int.from_bytes(code[offset : offset + 4], "little") if offset >= 0 else 0


def _first_slots(text: dict[int, bytes], records: list[Place], sizes: dict[Place, int]) -> tuple[Place, ...]:
    """Return where each pair starts. There are literals in all of the module or in none: most records decide."""
    after = []
    for section, offset in records:
        code = text.get(section, b"")
        padded = _word(code, offset - 4) in LANDING_PADS
        # A function that begins here, with room for the pair, has no literal before it, whatever its body looks like.
        begins = sizes.get((section, offset), 0) >= 8 or (padded and sizes.get((section, offset - 4), 0) >= 12)
        after.append(offset if begins else _first_slot(code, offset))
    literals = sum(first != offset for first, (_, offset) in zip(after, records, strict=True))
    if 2 * literals <= len(records):
        return tuple(records)
    return tuple((section, first) for first, (section, _) in zip(after, records, strict=True))


def _first_slot(code: bytes, record: int) -> int:
    """Return where the pair starts: after a literal of two NOPs and a landing pad, if they are there."""
    words = [_word(code, record + 4 * k) for k in range(5)]
    if words[:2] == [NOP, NOP]:
        if words[2] in LANDING_PADS and words[3] in (NOP, MOV):
            return record + 12
        if words[2] in (NOP, MOV) and words[3] == NOP:
            return record + 8
    return record
