"""The instructions that an ETMv4 trace speaks of, in the words of one range.

ETMv4 has an element for each branch and each ISB (Arm IHI 0064, "P0 elements"); all that lies between is followed in
the program image.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from prologue.insn.decode import signed

if TYPE_CHECKING:
    from prologue.arrays import U32, Bool


class Waypoint(IntEnum):
    """What an instruction does to the flow."""

    NONE = 0
    ISB = 1
    DIRECT = 2
    CONDITIONAL = 3
    INDIRECT = 4


@dataclass(frozen=True, slots=True)
class RangeCode:
    """One range: the waypoints before its last instruction, what the last one is, and where a direct one goes.

    ``inside`` has an atom for each: True was taken (an ISB counts as taken; a branch inside of a range was not, unless
    it goes to the next instruction anyway).
    """

    inside: tuple[bool, ...]
    last: Waypoint
    target: int


def find_waypoints(words: U32) -> U32:
    """The ``Waypoint`` of each word. Encodings: Arm ARM (DDI 0487), C4.1 "A64 instruction set encoding"."""
    found = np.zeros(len(words), np.uint32)
    for mask, value, kind in (
        (0x7C000000, 0x14000000, Waypoint.DIRECT),  # B, BL
        (0xFF000000, 0x54000000, Waypoint.CONDITIONAL),  # B.cond, BC.cond
        (0x7C000000, 0x34000000, Waypoint.CONDITIONAL),  # CBZ, CBNZ, TBZ, TBNZ
        (0xFE000000, 0xD6000000, Waypoint.INDIRECT),  # BR, BLR, RET, ERET, with pointer authentication or without
        (0xFFFFF0FF, 0xD50330DF, Waypoint.ISB),
    ):
        found[(words & np.uint32(mask)) == value] = kind
    return found


def describe(start: int, words: U32) -> RangeCode:
    """What a trace says of these words from ``start`` on, executed one after the other."""
    kinds = find_waypoints(words)
    targets = _distances(words) + 4 * np.arange(len(words))
    before = np.flatnonzero(kinds[:-1])
    taken: Bool = (kinds[before] == Waypoint.ISB) | (targets[before] == 4 * (before + 1))
    last = Waypoint(int(kinds[-1]))
    return RangeCode(tuple(taken.tolist()), last, start + int(targets[-1]) & (1 << 64) - 1)


def _distances(words: U32) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """From each direct branch to its target, in bytes; of other words it means nothing."""
    far = (words & np.uint32(0x7C000000)) == 0x14000000
    test = (words & np.uint32(0x7E000000)) == 0x36000000
    return 4 * np.where(far, signed(words, 0, 26), np.where(test, signed(words, 5, 14), signed(words, 5, 19)))
