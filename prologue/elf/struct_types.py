"""The types of a kernel's file: in BTF, which takes a tenth of a second, otherwise in DWARF, which takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from prologue.elf.btf import Btf
from prologue.elf.dwarf_types import DwarfTypes
from prologue.elf.image import ElfImage
from prologue.errors import InputError


class StructTypes(Protocol):
    """Offsets of structs' members."""

    def size(self, name: str) -> int | None:
        """Return a struct's size in bytes; None if it is not known."""

    def offset(self, path: str) -> int | None:
        """Return the bytes from the start of a struct to a member (``kprobe.ainsn.api``); None if not known."""


def struct_types(image: ElfImage) -> Iterator[tuple[str, StructTypes]]:
    """Yield the types that the file has, the fastest first, each with its name; damaged ones are left out."""
    section = image.section(".BTF")
    if section is not None and section.has_bytes:
        with suppress(InputError):
            yield "BTF", Btf(image.data(section), str(image.path))
    section = image.section(".debug_info") or image.section(".zdebug_info")
    if section is not None and section.has_bytes:
        with suppress(ImportError):  # drgn has no wheel for every machine
            yield "DWARF", DwarfTypes(image.path)
