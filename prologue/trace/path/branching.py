"""What the last instruction of a range does: arrays of A64 words, by how they may change the flow.

Encodings: Arm ARM (DDI 0487), "Branches, Exception Generating and System instructions".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64, Bool
from prologue.insn import decode

PLAIN, B, BL, CONDITIONAL, INDIRECT, CALL, RET, ERET, CALLS_UP, TRAP, UNDEFINED, UNKNOWN = range(12)
"""Goes on; B; BL; B.cond, CBZ, TBZ and their kin; BR; BLR; RET; ERET; SVC, HVC and SMC; BRK and HLT; UDF.

``UNKNOWN`` is of the branches' group, and no instruction that is known here: a later architecture's may do anything.
"""

_CLASSES: Final = (
    (decode.CONTROL, UNKNOWN),
    ((0xFF000000, 0xD4000000), PLAIN),  # exception generation
    ((0xFF000000, 0xD5000000), PLAIN),  # system instructions
    (decode.B, B),
    (decode.BL, BL),
    (decode.B_OR_BC_COND, CONDITIONAL),
    ((0xFF00000E, 0x5400000E), B),  # B.AL and B.NV: always taken
    (decode.CB_OR_TB, CONDITIONAL),
    ((0x7F00001F, 0x3400001F), B),  # CBZ of the zero register
    ((0x7F00001F, 0x3600001F), B),  # TBZ of it
    (decode.CB_COND, CONDITIONAL),
    (decode.RETURN_PC, RET),
    # The registers' group, also with pointer authentication: bits 24:21 are the operation.
    ((0xFE600000, 0xD6000000), INDIRECT),
    ((0xFE600000, 0xD6200000), CALL),
    ((0xFEE00000, 0xD6400000), RET),
    ((0xFEE00000, 0xD6800000), ERET),
    ((0xFFFFFBFF, 0xD6FF03E0), ERET),  # TEXIT (FEAT_S1POE2)
    ((0xFFE00000, 0xD4000000), CALLS_UP),
    ((0xFFE0001F, 0xD4200000), TRAP),
    ((0xFFE0001F, 0xD4400000), TRAP),
    ((0xFFFF0000, 0x00000000), UNDEFINED),
)
ALWAYS: Final = (B, BL, INDIRECT, CALL, RET, ERET, TRAP, UNDEFINED)
"""What never goes on to the next instruction by itself."""
_UNDEFINED_BELOW: Final = 1 << 16  # UDF's are the lowest words


def classes(words: U32) -> npt.NDArray[np.uint8]:
    """The class of each word; shape of ``words``."""
    found = np.full(words.shape, PLAIN, np.uint8)
    for pattern, number in _CLASSES:
        found[decode.matches(words, pattern)] = number
    return found


def targets(words: U32, places: U64) -> U64:
    """Where direct branches at ``places`` go; anything for other words."""
    found: U64 = places + decode.branch_distance(words).view(np.uint64)
    return found


def never_goes_on(words: U32, places: U64) -> Bool:
    """Which words cannot be followed by the next instruction; a direct branch to the next one can."""
    kind = classes(words)
    direct = (kind == B) | (kind == BL)
    found: Bool = np.isin(kind, ALWAYS) & ~(direct & (targets(words, places) == places + np.uint64(4)))
    return found


def find_never_goes_on(words: U32, base: int) -> I64:
    """Indices, ascending, of such words; ``words`` begin at address ``base``, and may be a whole kernel's text."""
    some = np.flatnonzero(decode.matches(words, decode.CONTROL) | (words < np.uint32(_UNDEFINED_BELOW)))
    places = np.uint64(base) + some.astype(np.uint64) * np.uint64(4)
    found: I64 = some[never_goes_on(words[some], places)]
    return found
