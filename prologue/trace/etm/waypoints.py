"""Waypoints: the instructions among the words of a range that have an element in an ETMv4 trace.

ETMv4 has an element for each branch and each ISB (Arm IHI 0064, "P0 elements"); a decoder follows the program image
between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from prologue.insn import decode
from prologue.insn.table import pattern

if TYPE_CHECKING:
    from prologue.arrays import U32, Bool


class Waypoint(IntEnum):
    """The effect of an instruction on the flow."""

    NONE = 0
    ISB = 1
    DIRECT = 2
    CONDITIONAL = 3
    INDIRECT = 4


@dataclass(frozen=True, slots=True)
class RangeCode:
    """The code of a range: waypoints before its last instruction, the kind of that, and the target if it is direct.

    ``inside`` has an atom for each: True was taken (an ISB counts as taken; a branch inside of a range was not, unless
    it goes to the next instruction anyway). ``is_broken``: one of these is always taken, so this cannot have run.
    """

    inside: tuple[bool, ...]
    last: Waypoint
    target: int
    is_broken: bool = False


def find_waypoints(words: U32) -> U32:
    """Return the ``Waypoint`` of each word. Encodings: Arm ARM (DDI 0487), C4.1 "A64 instruction set encoding"."""
    kinds = np.zeros(len(words), np.uint32)
    for encoding, kind in (
        (decode.B_OR_BL, Waypoint.DIRECT),
        (decode.B_OR_BC_COND, Waypoint.CONDITIONAL),
        (decode.CB_OR_TB, Waypoint.CONDITIONAL),
        (decode.CB_COND, Waypoint.CONDITIONAL),
        (decode.INDIRECT, Waypoint.INDIRECT),
        (decode.RETURN_PC, Waypoint.INDIRECT),
        (pattern("ISB"), Waypoint.ISB),
    ):
        kinds[decode.matches(words, encoding)] = kind
    return kinds


def describe(start: int, words: U32) -> RangeCode:
    """Describe words from ``start`` on that were executed one after the other."""
    kinds = find_waypoints(words)
    targets = decode.branch_distance(words) + 4 * np.arange(len(words))
    before = np.flatnonzero(kinds[:-1])
    taken: Bool = (kinds[before] == Waypoint.ISB) | (targets[before] == 4 * (before + 1))
    broken = bool((~taken & (kinds[before] != Waypoint.CONDITIONAL)).any())
    last = Waypoint(int(kinds[-1]))
    return RangeCode(tuple(taken.tolist()), last, start + int(targets[-1]) & (1 << 64) - 1, broken)
