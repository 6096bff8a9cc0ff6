"""The types of a whole file: in BTF, which takes a tenth of a second, otherwise in DWARF, which takes drgn seconds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

from prologue.dwarf.btf import Btf
from prologue.dwarf.c_types import VOID, CType, Member, array_of, pointer_to
from prologue.dwarf.packed_debug import debug_info_section
from prologue.elf.image import ElfImage
from prologue.errors import InputError
from prologue.installation import how_to_install

_Found = TypeVar("_Found")


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
    if debug_info_section(image) is not None:
        with suppress(ImportError):  # it has no wheel for every machine, or a library that it was built with is gone
            import_module("drgn")
            yield "DWARF", DrgnTypes(image.path)


class DrgnTypes:
    """The types and variables in one file's DWARF, opened at the first look-up; none if it has none, or is damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._program: Any = None

    def struct(self, name: str) -> CType | None:
        """Find a struct or union by its name, such as ``struct file``; None if nothing defines it."""
        return self._find(lambda program: c_type_of_drgn(program.type(name)))

    def variable(self, name: str) -> CType | None:
        """Return the type of a global variable; None if there is none of that name."""
        return self._find(lambda program: c_type_of_drgn(program.variable(name).type_))

    def size(self, name: str) -> int | None:
        """Return a struct's size in bytes; None if there is none of that name."""
        return self._find(lambda program: program.type(f"struct {name}").size)

    def offset(self, path: str) -> int | None:
        """Return the bytes from the start of a struct to a member (``kprobe.ainsn.api``); None if there is none."""
        from drgn import offsetof

        name, _, members = path.partition(".")
        return self._find(lambda program: int(offsetof(program.type(f"struct {name}"), members)))

    def _find(self, look_up: Callable[[Any], _Found]) -> _Found | None:
        try:
            self._program = self._program or _open_in_drgn(self._path)
            return look_up(self._program)
        except ImportError as missing:
            message = f"types of variables are read by drgn, which is not installed: {how_to_install('live', 'drgn')}"
            raise InputError(message, path=self._path) from missing
        except Exception:  # drgn raises plain Exception for what its libraries say of damage
            return None


def _open_in_drgn(path: Path) -> Any:
    """Open the DWARF of one file as a drgn program; what drgn says of damage is shown by the absence of types."""
    import drgn

    logging.getLogger("drgn").setLevel(logging.CRITICAL)
    program = drgn.Program(drgn.Platform(drgn.Architecture.AARCH64))
    made: Any = program.extra_module("file", create=True)
    module = made[0] if isinstance(made, tuple) else made
    module.try_file(str(path), force=True)
    return program


def c_type_of_drgn(type_: Any) -> CType:
    """Make a CType of a type of drgn's."""
    import drgn

    kinds, name = drgn.TypeKind, type_.type_name()
    while type_.kind == kinds.TYPEDEF:
        type_ = type_.type
    if type_.kind in (kinds.INT, kinds.BOOL):
        signed = type_.kind == kinds.INT and type_.is_signed
        return CType(kind="int", name=name, size=type_.size, signed=signed)
    if type_.kind == kinds.ENUM:
        inner = type_.type
        return CType(
            kind="int", name=name, size=inner.size if inner else None, signed=bool(inner and inner.is_signed),
            find_enumerators=lambda: {value: name for name, value in reversed(type_.enumerators or ())},
        )  # fmt: skip
    if type_.kind == kinds.POINTER:
        target = type_.type
        return pointer_to(lambda: c_type_of_drgn(target), target.type_name(), name)
    if type_.kind in (kinds.STRUCT, kinds.UNION):
        size = type_.size if type_.is_complete() else None
        return CType(kind="struct", name=name, size=size, find_members=lambda: _members(type_))
    if type_.kind == kinds.ARRAY:
        return array_of(c_type_of_drgn(type_.type), type_.length or 0)
    if type_.kind == kinds.FLOAT:
        return CType(kind="float", name=name, size=type_.size)
    return CType(kind="function", name=name) if type_.kind == kinds.FUNCTION else VOID


def _members(struct: Any) -> tuple[Member, ...]:
    if not struct.is_complete():
        return ()
    return tuple(
        Member(member.name or "", c_type_of_drgn(member.type), member.bit_offset, member.bit_field_size or 0)
        for member in struct.members
    )
