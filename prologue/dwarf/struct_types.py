"""The types of a kernel's file: in BTF, which takes a tenth of a second, otherwise in DWARF, which takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from prologue.dwarf.btf import Btf
from prologue.dwarf.drgn_types import open_in_drgn
from prologue.dwarf.packed_debug import debug_info_section
from prologue.elf.image import ElfImage
from prologue.errors import InputError


class StructTypes(Protocol):
    """Offsets of structs' members."""

    def size(self, name: str) -> int | None:
        """Return a struct's size in bytes; None if it is not known."""

    def offset(self, path: str) -> int | None:
        """Return the bytes from the start of a struct to a member (``kprobe.ainsn.api``); None if not known."""


class DwarfTypes:
    """The types in one vmlinux's DWARF, by drgn; none if it has no DWARF, or damaged DWARF."""

    def __init__(self, path: Path) -> None:
        self._program = open_in_drgn(path)

    def size(self, name: str) -> int | None:
        """Return a struct's size in bytes; None if there is none of that name."""
        struct = self._type(name)
        return None if struct is None else struct.size

    def offset(self, path: str) -> int | None:
        """Return the bytes from the start of a struct to a member (``kprobe.ainsn.api``); None if there is none."""
        import drgn

        name, _, members = path.partition(".")
        struct = self._type(name)
        try:
            return None if struct is None else int(drgn.offsetof(struct, members))
        except (LookupError, TypeError, ValueError):  # no such member, an incomplete type, a bit field
            return None

    def _type(self, name: str) -> Any:
        try:
            return self._program.type(f"struct {name}")
        except Exception:  # drgn raises plain Exception for what its libraries say of damage
            return None


def struct_types(image: ElfImage) -> Iterator[tuple[str, StructTypes]]:
    """Yield the types that the file has, the fastest first, each with its name; damaged ones are left out."""
    section = image.section(".BTF")
    if section is not None and section.has_bytes:
        with suppress(InputError):
            yield "BTF", Btf(image.data(section), str(image.path))
    if debug_info_section(image) is not None:
        with suppress(ImportError):  # drgn has no wheel for every machine
            yield "DWARF", DwarfTypes(image.path)
