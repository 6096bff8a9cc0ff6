"""Branches among arrays of A64 words: where they go, and which words never go on to the next instruction."""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import I64, U32, U64, Bool
from prologue.insn import decode
from prologue.insn.rows import flows
from prologue.insn.table import FlowKind

PLAIN, B, BL, CONDITIONAL, INDIRECT, CALL, RET, ERET, CALLS_UP, TRAP, UNDEFINED, UNKNOWN = FlowKind

ALWAYS: Final = (B, BL, INDIRECT, CALL, RET, ERET, TRAP, UNDEFINED)
"""Kinds of instructions that never go on to the next one by themselves."""
_UNDEFINED_BELOW: Final = 1 << 16  # UDF's are the lowest words


def targets(words: U32, places: U64) -> U64:
    """Return the targets of direct branches at ``places``; any address for other words."""
    vaddrs: U64 = places + decode.branch_distance(words).view(np.uint64)
    return vaddrs


def never_goes_on(words: U32, places: U64) -> Bool:
    """Return which words the next instruction cannot follow; it can follow a direct branch to it."""
    kind = flows(words)
    direct = (kind == B) | (kind == BL)
    stops: Bool = np.isin(kind, ALWAYS) & ~(direct & (targets(words, places) == places + np.uint64(4)))
    return stops


def find_never_goes_on(words: U32, base: int) -> I64:
    """Find the indices of these words, ascending; ``words`` begin at ``base``, and may be a whole kernel's text."""
    some = np.flatnonzero(decode.matches(words, decode.CONTROL) | (words < np.uint32(_UNDEFINED_BELOW)))
    places = np.uint64(base) + some.astype(np.uint64) * np.uint64(4)
    stops: I64 = some[never_goes_on(words[some], places)]
    return stops
