"""Debug sections that are stored compressed: zlib and zstd (System V gABI).

Linkers write them with ``--compress-debug-sections``: CONFIG_DEBUG_INFO_COMPRESSED_ZLIB and _ZSTD (Android's GKI).
"""

from __future__ import annotations

import struct
import tempfile
from typing import IO, Final

from prologue.elf.compressed import pieces
from prologue.elf.image import SHF_COMPRESSED, ElfImage
from prologue.elf.sections import EHDR, SHDR, Section
from prologue.errors import InputError

_CHDR: Final = struct.Struct("<IIQQ")  # Elf64_Chdr: type, reserved, size, alignment
_KINDS: Final = {1: "zlib", 2: "zstd"}
_CHUNK: Final = 1 << 20


def debug_info_section(image: ElfImage) -> Section | None:
    """Return the section with a file's DWARF entries; None if it has none."""
    section = image.section(".debug_info")
    return section if section is not None and section.has_bytes else None


def unpack_debug(image: ElfImage) -> IO[bytes] | None:
    """Write a copy of a file, with its debug sections unpacked, to a file without a name; None if none is packed.

    Raises:
        InputError: one is damaged or of an unknown form, or there is no room for the copy.

    """
    packed = [s for s in image.sections if not s.allocated and s.has_bytes and s.flags & SHF_COMPRESSED]
    if not packed:
        return None
    try:
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - the caller's
        for start in range(0, image.size, _CHUNK):
            spool.write(image.read(start, _CHUNK))
            image.drop_pages(start, _CHUNK)
        for section in packed:
            _write_unpacked(spool, image, section)
        spool.flush()
    except OSError as error:
        raise InputError(
            f"debug sections cannot be unpacked in {tempfile.gettempdir()}: {error.strerror}", path=image.path
        ) from error
    return spool


def _write_unpacked(spool: IO[bytes], image: ElfImage, section: Section) -> None:
    """Write a section at the end, and have its header say so."""
    at, size = spool.seek(0, 2), 0
    data = memoryview(image.content)[section.offset : section.offset + section.size]
    if len(data) < _CHDR.size:
        raise InputError(f"{section.name} is shorter than the header of a compressed section: damaged", path=image.path)
    number, _, unpacked, _ = _CHDR.unpack_from(data)
    if number not in _KINDS:
        raise InputError(
            f"{section.name} is compressed in a form that is not known ({number}): "
            "first run objcopy --decompress-debug-sections",
            path=image.path,
        )
    for piece in pieces(data[_CHDR.size :], f"{image.path}: {section.name}", _KINDS[number]):
        size += spool.write(piece)
    if size != unpacked:
        raise InputError(f"{section.name} unpacks to {size} bytes, its header has {unpacked}", path=image.path)
    place = EHDR.unpack_from(image.content)[6] + section.index * SHDR.size
    row = list(SHDR.unpack(image.read(place, SHDR.size)))
    row[2], row[4], row[5], row[8] = section.flags & ~SHF_COMPRESSED, at, size, 1
    spool.seek(place)
    spool.write(SHDR.pack(*row))
