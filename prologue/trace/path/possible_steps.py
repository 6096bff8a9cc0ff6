"""Possible steps from one instruction to the next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from prologue.arrays import U32, U64, Bool
from prologue.insn.rows import flows
from prologue.trace.path.branching import (
    BL,
    CALL,
    CALLS_UP,
    CONDITIONAL,
    ERET,
    INDIRECT,
    RET,
    TRAP,
    UNDEFINED,
    UNKNOWN,
    B,
    targets,
)
from prologue.trace.ranges import EXCEPTION, RETURN


def possible_steps(words: U32, last: U64, went: U64, flags: npt.NDArray[np.uint8], vectors: U64) -> Bool:
    """Return which steps can be, from ``words`` at ``last`` to the addresses ``went``; all of shape (n,).

    ``flags`` are EXCEPTION and RETURN, as far as the input marks them; ``vectors`` are addresses of exception vectors.
    """
    kind = flows(words)
    onward = went == last + np.uint64(4)
    direct = (kind == B) | (kind == BL) | (kind == CONDITIONAL)
    possible: Bool = direct & (targets(words, last) == went)
    possible |= np.isin(kind, (INDIRECT, CALL, RET, ERET, UNKNOWN))
    possible |= onward & ~np.isin(kind, (B, BL, TRAP, UNDEFINED))
    possible &= (flags & np.uint8(RETURN) == 0) | np.isin(kind, (ERET, UNKNOWN))
    possible |= np.isin(went, vectors) | (flags & np.uint8(EXCEPTION) != 0)
    return possible


def may_be_exceptions(words: U32, went: U64, nowhere: Bool, *, says_exceptions: bool) -> Bool:
    """Return which steps lead to an address that may be a vector without an image: firmware's, EL2's, a trampoline's.

    ``nowhere``: no image has ``went``. ``says_exceptions``: the input marks them, so an unmarked step is no exception.
    """
    up: Bool = nowhere & (flows(words) == CALLS_UP)
    return up if says_exceptions else up | (nowhere & (went & np.uint64(0x7F) == 0))
