"""The parameters of a function at its entry, by BTF and the procedure call standard.

BTF has prototypes only: where a value is later, and what locals a function has, DWARF alone says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prologue.elf.btf import Btf
from prologue.live.probe.btf_types import c_type_of_btf
from prologue.live.probe.c_types import CType
from prologue.live.probe.scopes import Variable
from prologue.live.probe.storage import ENTRY_ONLY, InMemory, InRegister, Missing, Pieces, Storage, register_name

_REGISTERS: Final = 8  # X0 to X7
_WORD: Final = 8  # bytes of a register, and the least that an argument takes on the stack
_LARGEST_IN_REGISTERS: Final = 16
_NOT_KNOWN: Final = "which register has it is not known from BTF: a parameter of an unusual type is before it"
_UNUSUAL: Final = "BTF does not say how a parameter of this type is passed"


class BtfVariables:
    """The parameters of a function as BTF has its prototype, for ``find_arguments``.

    Args:
        btf: the kernel's types.
        name: the function, of which there is only one.
        prototype: its type.
        at_entry: nothing of it has run yet.

    """

    def __init__(self, btf: Btf, name: str, prototype: int, *, at_entry: bool) -> None:
        self._btf, self._name, self._at_entry = btf, name, at_entry
        self._prototype = btf.type(prototype)

    @property
    def function_name(self) -> str:
        """Name of the function."""
        return self._name

    def parameters(self) -> list[Variable]:
        """Return the parameters, in order; those without a name, of a variable number, are left out."""
        typed = [(self._btf.text(name), c_type_of_btf(self._btf, kind)) for name, kind in self._prototype.items if kind]
        places = _passed([kind for _, kind in typed])
        return [
            Variable(name, kind, place if self._at_entry or isinstance(place, Missing) else Missing(ENTRY_ONLY))
            for (name, kind), place in zip(typed, places, strict=True)
            if name
        ]

    def variables(self) -> list[Variable]:
        """Return the parameters: BTF has no locals."""
        return self.parameters()

    def find(self, name: str) -> Variable | None:
        """Find a parameter; None if there is none of that name."""
        return next((variable for variable in self.parameters() if variable.name == name), None)

    def names(self) -> list[str]:
        """Return the names of the parameters."""
        return [variable.name for variable in self.parameters()]

    def return_type(self) -> CType:
        """Return the type of the function's value."""
        return c_type_of_btf(self._btf, self._prototype.value)

    def global_type(self, name: str) -> CType | None:
        """Return the type of a global variable; None if BTF has none of that name: it may have per-CPU ones only."""
        number = self._btf.variable(name)
        return c_type_of_btf(self._btf, number) if number is not None else None


def _passed(types: list[CType]) -> Iterator[Storage]:
    """Yield where the caller puts each argument (AAPCS64, 6.8.2, stages B and C); kernels pass none in V registers."""
    register = stack = 0
    known = True
    for kind in types:
        size, large = _size(kind), kind.kind == "struct" and (kind.size or 0) > _LARGEST_IN_REGISTERS
        known = known and size is not None
        if not known or size is None:
            yield Missing(_UNUSUAL if size is None else _NOT_KNOWN)
            continue
        words = -(-size // _WORD)
        if register + words <= _REGISTERS:
            names = [register_name(register + k) for k in range(words)]
            register += words
            if large:
                yield InMemory(names[0])
            else:
                yield InRegister(names[0]) if words == 1 else Pieces(tuple(_pieces(names, size)))
            continue
        register = _REGISTERS
        yield InMemory(f"+{stack}(%sp)") if large else InMemory("%sp", stack)
        stack += words * _WORD


def _pieces(names: list[str], size: int) -> Iterator[tuple[int, Storage]]:
    for k, name in enumerate(names):
        yield min(_WORD, size - _WORD * k), InRegister(name)


def _size(kind: CType) -> int | None:
    """Return how many bytes an argument takes, the address of a large struct for itself; None if it is unusual.

    Unusual are numbers of 16 bytes, and what has one in it: they want an even register, or 16 aligned bytes.
    """
    if kind.kind == "pointer":
        return _WORD
    if kind.kind == "int" and kind.size in (1, 2, 4, 8):
        return kind.size
    if kind.kind != "struct" or not kind.size:
        return None
    if kind.size > _LARGEST_IN_REGISTERS:
        return _WORD
    return kind.size if _is_plain(kind) else None


def _is_plain(kind: CType) -> bool:
    """Return whether all that is in a struct has at most 8 bytes, and none is a floating-point number."""
    for member in kind.members:
        inner = member.type
        while inner.kind == "array":
            inner = inner.target
        if inner.kind == "struct":
            if not _is_plain(inner):
                return False
        elif inner.kind not in ("int", "pointer") or (inner.size or _WORD + 1) > _WORD:
            return False
    return True
