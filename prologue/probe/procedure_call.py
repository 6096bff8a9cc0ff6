"""Places of a function's arguments when it is entered, by their types (AAPCS64, 6.8.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prologue.dwarf.c_types import CType
from prologue.probe.storage import InMemory, InRegister, Missing, Pieces, Storage, register_name

_REGISTERS: Final = 8  # X0 to X7
_WORD: Final = 8  # bytes of a register, and the least that an argument takes on the stack
_LARGEST_IN_REGISTERS: Final = 16
_UNUSUAL: Final = "its type alone does not say how it is passed"
_AFTER_UNUSUAL: Final = "a parameter is before it whose type does not say how it is passed"


def passed(types: Sequence[CType]) -> Iterator[Storage]:
    """Yield where the caller puts each argument (AAPCS64, 6.8.2, stages B and C); kernels pass none in V registers."""
    register = stack = 0
    known = True
    for kind in types:
        size, large = _size(kind), kind.kind == "struct" and (kind.size or 0) > _LARGEST_IN_REGISTERS
        known = known and size is not None
        if not known or size is None:
            yield Missing(_UNUSUAL if size is None else _AFTER_UNUSUAL)
            continue
        words = -(-size // _WORD)
        if register + words <= _REGISTERS:
            names = [register_name(register + k) for k in range(words)]
            register += words
            if large:
                yield InMemory(names[0])
            elif words == 1:
                yield InRegister(names[0])
            else:
                bits = (8 * min(_WORD, size - _WORD * k) for k in range(words))
                yield Pieces(tuple(zip(bits, map(InRegister, names), strict=True)))
            continue
        register = _REGISTERS
        yield InMemory(f"+{stack}(%sp)") if large else InMemory("%sp", stack)
        stack += words * _WORD


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
