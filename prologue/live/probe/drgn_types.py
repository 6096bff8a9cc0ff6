"""C types of the whole file, whatever unit defines them: drgn reads all of DWARF, which takes seconds for a kernel."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from prologue.live.probe.c_types import VOID, CType, Member, array_of, pointer_to


class WholeFile:
    """The types and variables of one file; opened at the first question."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._program: Any = None

    def struct(self, name: str) -> CType | None:
        """The struct or union of that name, such as ``struct file``; None if nothing defines it."""
        return self._ask(lambda program: program.type(name))

    def variable(self, name: str) -> CType | None:
        """The type of a global variable; None if there is none of that name."""
        return self._ask(lambda program: program.variable(name).type_)

    def _ask(self, question: Any) -> CType | None:
        import drgn

        if self._program is None:
            logging.getLogger("drgn").setLevel(logging.CRITICAL)  # what is missing is said by the caller
            self._program = drgn.Program(drgn.Platform(drgn.Architecture.AARCH64))
            made: Any = self._program.extra_module("file", create=True)
            module = made[0] if isinstance(made, tuple) else made
            module.try_file(str(self._path), force=True)
        try:
            return from_drgn(question(self._program))
        except Exception:  # drgn raises plain Exception for what its libraries say of damage
            return None


def from_drgn(found: Any) -> CType:
    """A type of drgn's."""
    import drgn

    kinds, name = drgn.TypeKind, found.type_name()
    while found.kind == kinds.TYPEDEF:
        found = found.type
    if found.kind in (kinds.INT, kinds.BOOL):
        signed = found.kind == kinds.INT and found.is_signed
        return CType(kind="int", name=name, size=found.size, signed=signed)
    if found.kind == kinds.ENUM:
        inner = found.type
        return CType(kind="int", name=name, size=inner.size if inner else None, signed=bool(inner and inner.is_signed))
    if found.kind == kinds.POINTER:
        target = found.type
        made = pointer_to(lambda: from_drgn(target), target.type_name())
        return CType(kind="pointer", name=name, size=8, find_target=made.find_target)
    if found.kind in (kinds.STRUCT, kinds.UNION):
        size = found.size if found.is_complete() else None
        return CType(kind="struct", name=name, size=size, find_members=lambda: _members(found))
    if found.kind == kinds.ARRAY:
        return array_of(from_drgn(found.type), found.length or 0)
    if found.kind == kinds.FLOAT:
        return CType(kind="float", name=name, size=found.size)
    return CType(kind="function", name=name) if found.kind == kinds.FUNCTION else VOID


def _members(found: Any) -> tuple[Member, ...]:
    if not found.is_complete():
        return ()
    return tuple(Member(m.name or "", from_drgn(m.type), m.bit_offset, m.bit_field_size or 0) for m in found.members)
