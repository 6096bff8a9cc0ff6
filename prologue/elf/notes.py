"""The GNU build-id (System V gABI, "Note Section")."""

from __future__ import annotations

import struct

from prologue.elf.image import ElfImage
from prologue.elf.sections import PHDR

_NT_GNU_BUILD_ID = 3
_PT_NOTE = 4
_DIGITS_IN_PERF = 40


def gnu_build_id(image: ElfImage) -> str:
    """Return the build-id in hex; empty if there is none."""
    for section in image.sections:
        if section.type == "SHT_NOTE" and section.has_bytes:
            build_id = build_id_among(image.data(section))
            if build_id:
                return build_id
    return ""


def matches_perf(build_id: str, recorded: str) -> bool:
    """Return whether a file's build-id (hex) is the one that perf recorded.

    perf's records have 20 bytes for it (``struct build_id_event``). What is longer is cut off, what is shorter is
    filled up with zeros, and not every writer, as simpleperf, says how many of the bytes are of the build-id.
    """
    cut_id = build_id[:_DIGITS_IN_PERF]
    return cut_id != "" and recorded in (cut_id, cut_id.ljust(_DIGITS_IN_PERF, "0"))


def build_id_in_head(head: bytes) -> str:
    """Return the GNU build-id (hex) in the first bytes of an ELF file of 64 bits; empty if it is not in them.

    The kernel looks for it in the first page only, too (``build_id_parse``, lib/buildid.c, 6.12).
    """
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        return ""
    phoff, entry_size, count = struct.unpack_from("<32xQ14xHH", head)
    if entry_size != PHDR.size:
        return ""
    table = head[phoff : phoff + count * PHDR.size]
    for kind, _, offset, _, _, size, _, _ in PHDR.iter_unpack(table[: len(table) // PHDR.size * PHDR.size]):
        if kind == _PT_NOTE and (build_id := build_id_among(head[offset : offset + size])):
            return build_id
    return ""


def build_id_among(notes: bytes) -> str:
    """Return the GNU build-id in a sequence of notes; empty if none of them has it."""
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = (int.from_bytes(notes[at + k : at + k + 4], "little") for k in (0, 4, 8))
        name_at = at + 12
        body_at = name_at + (name_size + 3) // 4 * 4
        is_gnu = notes[name_at : name_at + name_size] == b"GNU\0"
        if kind == _NT_GNU_BUILD_ID and is_gnu and body_at + size <= len(notes):
            return notes[body_at : body_at + size].hex()
        at = body_at + (size + 3) // 4 * 4
    return ""
