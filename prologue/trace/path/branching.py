"""What the last instruction of a range does: arrays of A64 words, by how they may change the flow."""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import I64, U32, U64, Bool
from prologue.insn import decode
from prologue.insn.rows import flows
from prologue.insn.table import FlowKind

PLAIN, B, BL, CONDITIONAL, INDIRECT, CALL, RET, ERET, CALLS_UP, TRAP, UNDEFINED, UNKNOWN = FlowKind

ALWAYS: Final = (B, BL, INDIRECT, CALL, RET, ERET, TRAP, UNDEFINED)
"""What never goes on to the next instruction by itself."""
_UNDEFINED_BELOW: Final = 1 << 16  # UDF's are the lowest words


def targets(words: U32, places: U64) -> U64:
    """Where direct branches at ``places`` go; anything for other words."""
    found: U64 = places + decode.branch_distance(words).view(np.uint64)
    return found


def never_goes_on(words: U32, places: U64) -> Bool:
    """Which words cannot be followed by the next instruction; a direct branch to the next one can."""
    kind = flows(words)
    direct = (kind == B) | (kind == BL)
    found: Bool = np.isin(kind, ALWAYS) & ~(direct & (targets(words, places) == places + np.uint64(4)))
    return found


def find_never_goes_on(words: U32, base: int) -> I64:
    """Indices, ascending, of such words; ``words`` begin at address ``base``, and may be a whole kernel's text."""
    some = np.flatnonzero(decode.matches(words, decode.CONTROL) | (words < np.uint32(_UNDEFINED_BELOW)))
    places = np.uint64(base) + some.astype(np.uint64) * np.uint64(4)
    found: I64 = some[never_goes_on(words[some], places)]
    return found
