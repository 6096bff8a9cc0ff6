"""The variables that a function has at one of its instructions, by its DWARF."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from prologue.dwarf.c_types import VOID, CType
from prologue.dwarf.debug_info import Unit
from prologue.dwarf.dwarf_entries import DEEPEST, code_of, entry_pc, origin, text_of
from prologue.dwarf.entry_types import type_of
from prologue.dwarf.statements import is_part, row_start
from prologue.insn.a64 import INSN_SIZE
from prologue.insn.rows import must_write
from prologue.probe.procedure_call import passed
from prologue.probe.storage import (
    FRAME_POINTER,
    NOT_SET_YET,
    OPTIMISED_OUT,
    OVERWRITTEN,
    Missing,
    StackFrame,
    Storage,
    location_start,
    register_of_address,
    registers_of,
    storage_at,
)

_EPILOGUE: Final = 128  # bytes that hold the end of a function: loads of ten registers, SP, and the return
_LONGEST_STATEMENT: Final = 512  # bytes
_VARIABLES = ("DW_TAG_formal_parameter", "DW_TAG_variable")
_DESCRIBING: Final = frozenset({"DW_AT_location", "DW_AT_const_value"})
INSTANCES = ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine")


class Variable(NamedTuple):
    """A variable, and its storage at an instruction."""

    name: str
    type: CType
    storage: Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBefore:
    """The code of a function that has run before an instruction.

    ``keeps_arguments`` if nothing of it has run, and its parameters are those of its declaration (no ``.isra`` or the
    like in its name, and no static function of Clang's). ``has_set`` tells whether it has written a register, by its
    number.
    """

    keeps_arguments: bool
    has_set: Callable[[int], bool]


ALL_RAN: Final = CodeBefore(keeps_arguments=False, has_set=lambda _: True)
"""Nothing is known of it, and DWARF is believed."""


def _by_precedence(path: list[Any]) -> list[Any]:
    """Return variables as they are looked up: the function's own, then those of functions that are inlined there.

    Of each function the innermost block comes first, as in C. An inlined one may have other variables of the same
    names, which are not meant where the function is named; of several, the innermost is nearest.
    """
    outer, *inlined = [_of_blocks(path[low:high][::-1]) for low, high in pairwise(_bounds(path))]
    return [*outer, *(entry for entries in reversed(inlined) for entry in entries)]


def _of_blocks(blocks: list[Any]) -> list[Any]:
    """Return the variables of a function's blocks and parts; one that a part never describes is as outside of it."""
    entries = [entry for block in blocks for entry in block.iter_children() if entry.tag in _VARIABLES]
    described = {origin(e).offset: e for e in reversed(entries) if _DESCRIBING.intersection(e.attributes)}
    return [described.get(origin(entry).offset, entry) for entry in entries]


def _bounds(path: list[Any]) -> list[int]:
    """Return where each function begins in a path of scopes, with the blocks and parts of it, and the path's length."""
    begins = [0]
    for k, entry in enumerate(path[1:], 1):
        if entry.tag in INSTANCES and not is_part(path[begins[-1]], entry):
            begins.append(k)
    return [*begins, len(path)]


class Scope:
    """The variables that are in scope at an address of a function.

    Args:
        unit: the compile unit.
        function: the function's entry, not an inlined one.
        vaddr: the instruction.
        owner: offset in ``.debug_info`` of the function, inlined or not, whose variables are meant; None for all that
            are in scope, and the parameters of ``function``.
        before: an earlier instruction, after which nothing changes a variable: locations that hold there hold, too.
        code_before: what of the function has run before the instruction.

    """

    def __init__(  # noqa: PLR0913 - one place, and what is known of it
        self, unit: Unit, function: Any, vaddr: int, owner: int | None = None, *, before: int | None = None,
        code_before: CodeBefore = ALL_RAN,
    ) -> None:  # fmt: skip
        self._unit, self._function, self._vaddr = unit, function, vaddr
        self._before = vaddr if before is None else before
        self._before_it = code_before
        self._dwarf = unit.debug.dwarf
        path = list(self._path(function, 0))
        if owner is not None:
            index = next((k for k, entry in enumerate(path) if entry.offset == owner), None)
            # An inlined function may have no code at the instruction that it begins with.
            path = path[index:] if index is not None else [unit.entry(owner - unit.offset)]
            path = path[: _bounds(path)[1]]
        self._entries = _by_precedence(path)
        self._owner = path[0]

    def _path(self, entry: Any, depth: int) -> Iterator[Any]:
        """Yield the entry, and those inside of it that have the instruction."""
        yield entry
        if depth > DEEPEST:
            return
        for child in entry.iter_children():
            if child.tag in ("DW_TAG_lexical_block", "DW_TAG_inlined_subroutine") and any(
                low <= self._vaddr < high for low, high in code_of(self._dwarf, child)
            ):
                yield from self._path(child, depth + 1)
                return

    @property
    def function_name(self) -> str:
        """Name of the function whose variables are meant."""
        return text_of(self._owner, "DW_AT_name")

    def parameters(self) -> list[Variable]:
        """Return the function's parameters, in order; in a part of it, as that has them."""
        entries = (e for e in self._owner.iter_children() if e.tag == "DW_TAG_formal_parameter")
        same = {origin(entry).offset: entry for entry in reversed(self._entries)}
        return [self._variable(same[origin(entry).offset]) for entry in entries if text_of(entry, "DW_AT_name")]

    def variables(self) -> list[Variable]:
        """Return parameters and locals that are in scope; of several of one name, that which ``find`` finds."""
        known: dict[str, Any] = {}
        for entry in self._entries:
            if name := text_of(entry, "DW_AT_name"):
                known.setdefault(name, entry)
        ordered = sorted(known.values(), key=lambda entry: (entry.tag != _VARIABLES[0], entry.offset))
        return [self._variable(entry) for entry in ordered]

    def find(self, name: str) -> Variable | None:
        """Find the variable of that name, the function's own first, then the unit's; None if there is none."""
        for entry in self._entries:
            if text_of(entry, "DW_AT_name") == name:
                return self._variable(entry)
        # Static ones of several units have the same name, and the kernel's symbols do not say which is meant.
        entries = self._unit.named(name, "DW_TAG_variable")
        return next((self._variable(entry) for entry in entries if "DW_AT_location" in entry.attributes), None)

    def names(self) -> list[str]:
        """Return the names that ``find`` knows."""
        return [name for name in (text_of(entry, "DW_AT_name") for entry in self._entries) if name]

    def return_type(self) -> CType:
        """Return the type of the function's value."""
        return type_of(self._unit.debug, self._owner)

    def global_type(self, name: str) -> CType | None:
        """Return the type of a variable outside of functions: this unit's, otherwise any unit's; None if not known."""
        for entry in self._unit.named(name, "DW_TAG_variable"):
            return type_of(self._unit.debug, entry)
        return self._unit.debug.whole_file.variable(name)

    def _variable(self, entry: Any) -> Variable:
        kind = type_of(self._unit.debug, entry)
        storage = storage_at(self._dwarf, entry, self._before, self._frame)
        if isinstance(storage, Missing) and self._before != self._vaddr:
            storage = storage_at(self._dwarf, entry, self._vaddr, self._frame)
        elif self._is_overwritten(entry, storage):
            storage = Missing(OVERWRITTEN)
        register = register_of_address(entry)
        if register is not None and not self._before_it.has_set(register):
            storage = self._passed.get(entry.offset, Missing(NOT_SET_YET))
        if storage == Missing(OPTIMISED_OUT):  # Clang's begin after BTI, and a parameter that is never used has none
            storage = self._passed.get(entry.offset, storage)
        return Variable(text_of(entry, "DW_AT_name"), kind, Missing("it has no type") if kind is VOID else storage)

    def _is_overwritten(self, entry: Any, storage: Storage) -> bool:
        """Return whether a register of a storage was written since its location holds, in the same statement.

        At the start of a statement such a write is an assignment that the compiler knows of. Within one it may belong
        to an instruction of the compiler's that is several of the machine: it has no location for these.
        """
        registers, end = registers_of(storage) - {FRAME_POINTER}, self._before
        if not registers:
            return False
        start = max(location_start(self._dwarf, entry, end), self._frame.start, end - _LONGEST_STATEMENT)
        words = self._unit.debug.image.words(np.arange(start, end, INSN_SIZE, dtype=np.uint64))
        writes = np.flatnonzero(np.any([must_write(words, number) for number in registers], axis=0))
        return len(writes) > 0 and start + INSN_SIZE * int(writes[-1]) >= row_start(self._unit, end)

    @cached_property
    def _passed(self) -> dict[int, Storage]:
        """Return where the caller put the parameters, by the offsets of their entries; empty if it may be over."""
        if not self._before_it.keeps_arguments or self._owner.offset != self._function.offset:
            return {}
        entries = [entry for entry in self._owner.iter_children() if entry.tag == _VARIABLES[0]]
        types = [type_of(self._unit.debug, entry) for entry in entries]
        return {entry.offset: storage for entry, storage in zip(entries, passed(types), strict=True)}

    @cached_property
    def _frame(self) -> StackFrame:
        first = next(code_of(self._dwarf, self._function), (0, 0))[0]
        runs = [low for low, high in code_of(self._dwarf, self._function) if low <= self._vaddr < high]
        start = runs[0] if runs else first
        base = self._function.attributes.get("DW_AT_frame_base")
        value = base.value if base is not None and isinstance(base.value, list) else ()
        # A part that stands elsewhere is jumped to, with the stack as it is then.
        after = np.uint64(self._vaddr) + np.arange(0, _EPILOGUE, INSN_SIZE, dtype=np.uint64)
        words = self._unit.debug.image.words(after).tolist()
        return StackFrame(self._dwarf, start, value, words, is_entry=start == entry_pc(self._dwarf, self._function))
