"""Reads a module's records as the kernel's module loader does.

Read in kernel/module.c of 5.10, and in kernel/module/main.c of 6.1 to 7.3.

``find_sec`` takes the first allocated section of a name. ``apply_relocations`` applies RELA, refuses REL (-ENOEXEC) and
passes over all that it does not know. Of that it says nothing: the module loads, with records that are zero or missing.
"""

from __future__ import annotations

from typing import Final

from prologue.elf.image import SHF_COMPRESSED, ElfImage
from prologue.elf.sections import Section
from prologue.errors import InputError

RECORDS: Final = "__patchable_function_entries"

_SHF_INFO_LINK: Final = 1 << 6
# Relocations in another form than RELA (System V gABI; LLVM's BinaryFormat/ELF.h for those that have no other home).
_OTHER_FORMS: Final = {
    "SHT_REL": "REL",
    str(0x40000014): "CREL",
    str(0x60000001): "packed",
    str(0x60000002): "packed",
}
_LINK: Final = "link the module with the kernel's scripts/module.lds"


def record_sections(image: ElfImage) -> list[Section]:
    """Return the sections that hold records, in file order; the loader takes the first, even if it is empty."""
    return [s for s in image.sections if s.allocated and s.name == RECORDS]


def require_readable(image: ElfImage) -> None:
    """Check that the loader would see all relocations and records that are here.

    Raises:
        InputError: it would pass over some.

    """
    for section in image.sections:
        if section.allocated and section.flags & SHF_COMPRESSED:
            raise InputError(f"{section.name} is compressed, and the module loader does not unpack it", path=image.path)
        if section.name == RECORDS:
            _require_records(image, section)
        form = _OTHER_FORMS.get(section.type)
        if form is None and section.flags & _SHF_INFO_LINK and section.type != "SHT_RELA":
            form = f"unknown (section type {section.type})"
        if form is None or not section.size or not 0 < section.info < len(image.sections):
            continue
        target = image.sections[section.info]
        if target.allocated:
            raise InputError(
                f"{section.name} has {form} relocations of {target.name}, and the module loader of arm64 applies RELA "
                "only: compile without them (-Wa,--crel makes CREL)",
                path=image.path,
            )


def _require_records(image: ElfImage, section: Section) -> None:
    if not section.allocated:
        problem = "is not allocated (SHF_ALLOC), so that the module loader does not look at it"
    elif section.type == "SHT_NOBITS" and section.size:
        problem = "has no bytes in the file (SHT_NOBITS)"
    elif section.size % 8:
        problem = f"has {section.size} bytes, which are not whole 8-byte records"
    else:
        return
    raise InputError(f"{RECORDS} {problem}: damaged, or {_LINK}", path=image.path)
