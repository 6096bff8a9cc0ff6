"""Decides which instruction may become which while other CPUs execute it.

Arm ARM (DDI 0487), "Concurrent modification and execution of instructions" (B2.2.5 in most issues; numbers
move, so cite the title): if both the old and the new instruction are on its list, a CPU executes one or the
other. For any other pair what is executed is CONSTRAINED UNPREDICTABLE until the CPU has synchronised.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from prologue.insn import a64
from prologue.insn.table import pattern

Issue = Literal["old", "new"]

OLD_LIST: Final = ("B", "BL", "BRK", "HVC", "ISB", "NOP", "SMC", "SVC")
NEW_LIST: Final = (*OLD_LIST, "B.cond", "CBZ", "CBNZ", "TBZ", "TBNZ")

CITATION: Final = 'Arm ARM DDI 0487, "Concurrent modification and execution of instructions" (B2.2.5 in most issues)'


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Verdict on a live transition: whether it is architecturally safe, and why."""

    old: str  # class, or the word in hex when it has none
    new: str
    allowed: bool
    reason: str
    issue: Issue
    citation: str = CITATION


def listed(word: int, issue: Issue = "old") -> bool:
    """Return whether the word is on the CMODX list of that generation of the Arm ARM."""
    return a64.classify(word) in (OLD_LIST if issue == "old" else NEW_LIST)


def listed_words(words: npt.NDArray[np.uint32], issue: Issue = "old") -> npt.NDArray[np.bool_]:
    """Return which of many words are on that list; shape of ``words``."""
    on_list = np.zeros(words.shape, np.bool_)
    for name in OLD_LIST if issue == "old" else NEW_LIST:
        mask, value = pattern(name)
        on_list |= words & np.uint32(mask) == np.uint32(value)
    return on_list


def word_name(word: int) -> str:
    """Name a word: an instruction of its own, its class, or the word in hex if it has none."""
    special = {
        a64.MOV_X9_X30: "MOV X9, X30",
        a64.BTI: "BTI",
        a64.BTI_C: "BTI C",
        a64.BTI_J: "BTI J",
        a64.BTI_JC: "BTI JC",
        a64.PACIASP: "PACIASP",
        a64.AUTIASP: "AUTIASP",
    }
    return special.get(word) or a64.classify(word) or f"{word:08x}"


def judge(old: int, new: int, issue: Issue = "old", *, changes: bool | None = None) -> Judgement:
    """Decide whether ``old`` may become ``new`` while other CPUs may be executing it.

    ``changes`` says whether they are different instructions, if the words only stand for their classes.
    """
    names = word_name(old), word_name(new)
    if changes if changes is not None else old != new:
        allowed, reason = _reason(old, new, names, issue)
    else:
        allowed, reason = True, "nothing changes"
    return Judgement(old=names[0], new=names[1], allowed=allowed, reason=reason, issue=issue)


def _reason(old: int, new: int, names: tuple[str, str], issue: Issue) -> tuple[bool, str]:
    off = [name for name, word in zip(names, (old, new), strict=True) if not listed(word, issue)]
    if not off:
        return True, "both are on the CMODX list"
    off = list(dict.fromkeys(off))
    reason = f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} not on the CMODX list"
    if all(listed(word, "new") for word in (old, new)):
        reason += "; newer issues list it (--issue new)"
    elif {old, new} == {a64.NOP, a64.MOV_X9_X30}:
        reason += ": a CPU may have executed the NOP as a NOP and then meet the BL, and LR is lost"
    return False, reason
