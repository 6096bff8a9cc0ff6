"""The types of a kernel's file: in BTF, which takes a tenth of a second, otherwise in DWARF, which takes seconds."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from prologue.dwarf.btf import Btf
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
        import drgn

        self._drgn = drgn
        self._program = drgn.Program(drgn.Platform(drgn.Architecture.AARCH64))
        # What it says on standard error of damage is said here by the absence of types.
        logging.getLogger("drgn").setLevel(logging.CRITICAL)
        made: Any = self._program.extra_module("vmlinux", create=True)
        module = made[0] if isinstance(made, tuple) else made
        module.try_file(str(path), force=True)

    def size(self, name: str) -> int | None:
        """Return a struct's size in bytes; None if there is none of that name."""
        struct = self._type(name)
        return None if struct is None else struct.size

    def offset(self, path: str) -> int | None:
        """Return the bytes from the start of a struct to a member (``kprobe.ainsn.api``); None if there is none."""
        name, _, members = path.partition(".")
        struct = self._type(name)
        try:
            return None if struct is None else int(self._drgn.offsetof(struct, members))
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
