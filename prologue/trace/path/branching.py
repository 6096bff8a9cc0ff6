"""Branches among arrays of A64 words: where they go, which words never go on, and which steps can be."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64, Bool
from prologue.insn import decode
from prologue.insn.rows import flows
from prologue.insn.table import FlowKind
from prologue.trace.ranges import EXCEPTION, RETURN

PLAIN, B, BL, CONDITIONAL, INDIRECT, CALL, RET, ERET, CALLS_UP, TRAP, UNDEFINED, UNKNOWN = FlowKind

DIRECT: Final = (B, BL, CONDITIONAL)
ANYWHERE: Final = (INDIRECT, CALL, RET, ERET, UNKNOWN)
"""Kinds of instructions that may lead to any address."""
NEVER_ONWARD: Final = (B, BL, TRAP, UNDEFINED)
"""Kinds that lead to the next instruction only if it is their target."""
ALWAYS: Final = (*NEVER_ONWARD, INDIRECT, CALL, RET, ERET)
"""Kinds that never go on to the next instruction by themselves."""
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
    candidates = np.flatnonzero(decode.matches(words, decode.CONTROL) | (words < np.uint32(_UNDEFINED_BELOW)))
    places = np.uint64(base) + candidates.astype(np.uint64) * np.uint64(4)
    stops: I64 = candidates[never_goes_on(words[candidates], places)]
    return stops


def possible_steps(words: U32, last: U64, went: U64, flags: npt.NDArray[np.uint8], vectors: U64) -> Bool:
    """Return which steps can be, from ``words`` at ``last`` to the addresses ``went``; all of shape (n,).

    ``flags`` are EXCEPTION and RETURN, as far as the input marks them; ``vectors`` are addresses of exception vectors.
    """
    kind = flows(words)
    onward = went == last + np.uint64(4)
    possible: Bool = np.isin(kind, DIRECT) & (targets(words, last) == went)
    possible |= np.isin(kind, ANYWHERE)
    possible |= onward & ~np.isin(kind, NEVER_ONWARD)
    possible &= (flags & np.uint8(RETURN) == 0) | np.isin(kind, (ERET, UNKNOWN))
    possible |= np.isin(went, vectors) | (flags & np.uint8(EXCEPTION) != 0)
    return possible


def may_be_exceptions(words: U32, went: U64, nowhere: Bool, *, says_exceptions: bool) -> Bool:
    """Return which steps lead to an address that may be a vector without an image: firmware's, EL2's, a trampoline's.

    ``nowhere``: no image has ``went``. ``says_exceptions``: the input marks them, so an unmarked step is no exception.
    """
    up: Bool = nowhere & (flows(words) == CALLS_UP)
    return up if says_exceptions else up | (nowhere & (went & np.uint64(0x7F) == 0))
