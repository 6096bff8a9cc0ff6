"""The flat Image: what ``objcopy -O binary -S`` makes of a vmlinux (``arch/arm64/boot/Makefile``).

Every allocated section with bytes at its load address minus the lowest one, gaps as zeros. The load address is
that of the segment plus the section's distance from it (BFD's ``lma``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from prologue.elf.image import ElfImage
from prologue.elf.sections import Section
from prologue.errors import InputError
from prologue.outputs import new_file

# OBJCOPYFLAGS_Image removes the first three (arch/arm64/boot/Makefile, 5.5-7.2); the last one is in vmlinux.unstripped
# and not in the vmlinux that the Image is made of (scripts/Makefile.vmlinux, "remove-section-y", 7.2).
_REMOVED = frozenset({".note", ".note.gnu.build-id", ".comment", ".modinfo"})


def _load_address(image: ElfImage, section: Section) -> int:
    for segment in image.segments:
        if segment.vaddr <= section.addr and section.addr + section.size <= segment.vaddr + segment.memsz:
            return segment.paddr + section.addr - segment.vaddr
    return section.addr


def write_flat(image: ElfImage, out: Path) -> int:
    """Write the flat Image: whole or not at all.

    Returns:
        Its size in bytes.

    Raises:
        OutputError: ``out`` cannot be written; otherwise as ``flat_sections``.

    """
    with new_file(out) as temporary, temporary.open("r+b") as stream:
        for offset, data in flat_pieces(image):
            stream.seek(offset)
            stream.write(data)
        return stream.tell()


def flat_pieces(image: ElfImage) -> Iterator[tuple[int, bytes]]:
    """Yield (offset in the flat file, bytes) in ascending order; errors as ``flat_sections``."""
    return ((offset, image.data(section)) for offset, section in flat_sections(image))


def flat_sections(image: ElfImage) -> Iterator[tuple[int, Section]]:
    """Yield (offset in the flat file, section) in ascending order.

    Raises:
        InputError: nothing to load, or sections that overlap.

    """
    sections = (s for s in image.sections if s.allocated and s.has_bytes and s.name not in _REMOVED)
    loaded = sorted(((_load_address(image, s), s) for s in sections), key=lambda pair: pair[0])
    if not loaded:
        raise InputError("no section to load", path=image.path)
    base, end, before = loaded[0][0], loaded[0][0], loaded[0][1]
    for address, section in loaded:
        if address < end:
            raise InputError(f"sections {before.name} and {section.name} overlap at {address:#x}", path=image.path)
        end, before = address + section.size, section
        if end - base > 1 << 32:
            raise InputError(f"section {section.name} is more than 4 GiB after the first", path=image.path)
        yield address - base, section
