"""Decides whether a CPU can go a way on which X9 is read.

A walk over all branches finds ways that no CPU goes: compilers leave a variable undefined on each path on which a flag,
in a register, says that nothing reads it. On these ways a value in X9 is even moved to a register that calls keep, and
back. So the flag's value is followed, and where the value that was in X9 has gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from prologue.flow.control_flow import Flow
from prologue.insn.decode import B
from prologue.insn.effect import after, effect, taken
from prologue.insn.rows import X9
from prologue.insn.table import FlowKind, row_of

_KEPT: Final = frozenset(range(19, 30))  # AAPCS64, "General-purpose registers": a call keeps X19-X29
_STATES: Final = 20_000  # more than a compiler's function needs; then a way is believed

Meaning = Literal["read", "written", "untouched", "end"]


class _State(NamedTuple):
    position: int
    known: tuple[tuple[int, int], ...]  # registers and their values
    holders: frozenset[int]  # registers that hold what was in X9


def read_from(flow: Flow, begin: int, meaning: Callable[[int], Meaning | None]) -> int | None:
    """Walk from a position, where X9 holds a value that matters, to the first word that reads it; None if none does.

    ``meaning`` says what happens to X9 at a position, or that the way ends there; if it returns None, the word itself
    decides. If there are too many ways, ``begin`` is returned, as if that were the read.
    """
    todo = [_State(begin, (), frozenset([X9]))]
    seen = set(todo)
    for state in todo:  # grows meanwhile
        meant = meaning(state.position)
        if meant == "end":
            continue
        holders = _holders(flow, state, meant)
        if holders is None:
            return state.position
        fresh = [following for following in _next(flow, state, holders) if following not in seen] if holders else []
        todo += fresh
        seen.update(fresh)
        if len(seen) > _STATES:
            return begin
    return None


def _holders(flow: Flow, state: _State, meant: Meaning | None) -> frozenset[int] | None:
    """Return the registers that hold the value after the instruction; None if it reads the value."""
    gone, copies = set[int](), set[int]()
    word = int(flow.words[state.position])
    for register in state.holders:
        happens = meant if register == X9 else None
        if happens is None:
            does = effect(word, register)
            copy = word & 31
            if does == "read" and word & 0xFFE0FFE0 == 0x2A0003E0 and copy in _KEPT | {X9}:  # MOV Wd, Wm
                # Half of X9 is no promise that was kept, as where W9 is stored to the stack: follow it.
                copies.add(copy)
            elif does == "read":
                happens = "read"
            elif does == "write":
                happens = "written"
        if happens == "read":
            return None
        if happens == "written":
            gone.add(register)
    return state.holders - gone | copies  # a register that is written may get the value again


def _next(flow: Flow, state: _State, holders: frozenset[int]) -> list[_State]:
    """Return the places where control goes from an instruction, each with the registers' state."""
    position, known = state.position, dict(state.known)
    word, target = int(flow.words[position]), flow.after_jump_at(position)
    if is_call(word):
        kept = tuple((register, value) for register, value in state.known if register in _KEPT)
        return [_State(position + 1, kept, holders & _KEPT)] if holders & _KEPT else []
    branches, constants = taken(word, known), tuple(sorted(after(word, known).items()))
    ways = []
    if word & B[0] != B[1] and branches is not True:
        ways.append(_State(position + 1, constants, holders))
    if target >= 0 and branches is not False:
        ways.append(_State(target, constants, holders))
    return ways


def is_call(word: int) -> bool:
    """Return whether a word is BL, BLR or BLRAA and its kind."""
    return row_of(word).flow in (FlowKind.BL, FlowKind.CALL)
