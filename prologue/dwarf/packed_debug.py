"""Debug sections that are stored compressed, in every form: zlib and zstd (System V gABI), and the older ``.zdebug_``.

Linkers write them with ``--compress-debug-sections``: CONFIG_DEBUG_INFO_COMPRESSED_ZLIB and _ZSTD (Android's GKI).
"""

from __future__ import annotations

import struct
import tempfile
from typing import IO, Final, NamedTuple

from prologue.elf.compressed import pieces
from prologue.elf.image import SHF_COMPRESSED, ElfImage
from prologue.elf.sections import Section
from prologue.elf.structs import EHDR, SHDR, SHN_XINDEX
from prologue.errors import InputError

_CHDR: Final = struct.Struct("<IIQQ")  # Elf64_Chdr: type, reserved, size, alignment
_KINDS: Final = {1: "zlib", 2: "zstd"}
_OLD_HEAD: Final = struct.Struct(">4sQ")  # of .zdebug_ sections: "ZLIB" and the size (binutils, bfd/compress.c)
_CHUNK: Final = 1 << 20


class _Packed(NamedTuple):
    """A form of compression, the size of what is compressed, and the compressed bytes."""

    kind: str
    size: int
    data: memoryview


def debug_info_section(image: ElfImage) -> Section | None:
    """Return the section with a file's DWARF entries, stored in any form; None if it has none."""
    section = image.section(".debug_info") or image.section(".zdebug_info")
    return section if section is not None and section.has_bytes else None


def unpack_debug(image: ElfImage) -> IO[bytes] | None:
    """Write a copy of a file, with its debug sections unpacked, to a file without a name; None if none is packed.

    Raises:
        InputError: one is damaged or of an unknown form, or there is no room for the copy.

    """
    stored = (s for s in image.sections if not s.allocated and s.has_bytes)
    packed = [s for s in stored if s.flags & SHF_COMPRESSED or s.name.startswith(".zdebug_")]
    if not packed:
        return None
    try:
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - the caller's
        for start in range(0, image.size, _CHUNK):
            spool.write(image.read(start, _CHUNK))
            image.drop_pages(start, _CHUNK)
        _write_unpacked(spool, image, packed)
        spool.flush()
    except OSError as error:
        raise InputError(
            f"debug sections cannot be unpacked in {tempfile.gettempdir()}: {error.strerror}", path=image.path
        ) from error
    return spool


def _write_unpacked(spool: IO[bytes], image: ElfImage, packed: list[Section]) -> None:
    """Write the sections and a table of their names at the end, and have the headers say so."""
    header = EHDR.unpack_from(image.content)
    table, names = header[6], header[13] if header[13] != SHN_XINDEX else image.sections[0].link
    added, name_table = bytearray(), image.sections[names]
    changes: list[tuple[int, dict[int, int]]] = []  # a section, and fields of its header by index
    for section in image.sections:
        fields: dict[int, int] = {}
        if ".zdebug_" in section.name:  # so do the names of its relocations
            fields[0] = name_table.size + len(added)
            added += section.name.replace(".zdebug_", ".debug_").encode() + b"\0"
        if section in packed:
            at = spool.seek(0, 2)
            fields |= {2: section.flags & ~SHF_COMPRESSED, 4: at, 5: _write_section(spool, image, section), 8: 1}
        changes.append((section.index, fields))
    changes.append((names, {4: spool.seek(0, 2), 5: name_table.size + len(added)}))
    spool.write(image.data(name_table) + added)
    for index, fields in changes:
        at = table + index * SHDR.size
        row = list(SHDR.unpack(image.read(at, SHDR.size)))
        for field, value in fields.items():
            row[field] = value
        if fields:
            spool.seek(at)
            spool.write(SHDR.pack(*row))


def _write_section(spool: IO[bytes], image: ElfImage, section: Section) -> int:
    """Write a section unpacked; return its size."""
    packed, size = _packed(image, section), 0
    for piece in pieces(packed.data, f"{image.path}: {section.name}", packed.kind):
        size += spool.write(piece)
    if size != packed.size:
        raise InputError(f"{section.name} unpacks to {size} bytes, its header has {packed.size}", path=image.path)
    return size


def _packed(image: ElfImage, section: Section) -> _Packed:
    data = memoryview(image.content)[section.offset : section.offset + section.size]
    if not section.flags & SHF_COMPRESSED:
        if len(data) < _OLD_HEAD.size or bytes(data[:4]) != b"ZLIB":
            raise InputError(f"{section.name} does not begin with ZLIB: damaged", path=image.path)
        return _Packed("zlib", _OLD_HEAD.unpack_from(data)[1], data[_OLD_HEAD.size :])
    if len(data) < _CHDR.size:
        raise InputError(f"{section.name} is shorter than the header of a compressed section: damaged", path=image.path)
    number, _, size, _ = _CHDR.unpack_from(data)
    if number not in _KINDS:
        raise InputError(
            f"{section.name} is compressed in a form that is not known ({number}): "
            "first run objcopy --decompress-debug-sections",
            path=image.path,
        )
    return _Packed(_KINDS[number], size, data[_CHDR.size :])
