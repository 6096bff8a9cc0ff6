"""Landing pads that MOV X9, X30 has replaced.

In layout ``4,2`` the kernel takes the word 8 bytes after the record for the first slot if it is no BTI. So a tool that
knows no landing pads writes its MOV over them, and what it leaves looks like a site without a pad::

    literal; BTI C; NOP; NOP    ->    literal; MOV; NOP; NOP
"""

from __future__ import annotations

from typing import Final

import numpy as np

from prologue.arrays import Bool, among
from prologue.insn import a64
from prologue.kernel.binary import Binary
from prologue.kernel.sites import Sites

_MANY: Final = 8  # of 59,319 sites of Debian's modules, two have such a NOP


def replaced_by_first(binary: Binary, sites: Sites) -> Bool:
    """Return the sites whose first slot is where the pad was: MOV; NOP or MOV, and another NOP.

    A body may begin with a NOP, too, and compilers give no pad to a function that other files cannot call. So MOV; NOP;
    NOP counts if no other patcher owns the last word, and if most sites, and many, are like that; or if the function is
    global, and most sites have a pad.
    """
    suspect: Bool = (sites.word0 == a64.MOV_X9_X30) & ~sites.bti & ~sites.moved
    if sites.layout != "4,2" or not suspect.any():
        return np.zeros_like(suspect)
    third = sites.second + np.uint64(4)
    suspect &= binary.text.words(third) == a64.NOP
    twice: Bool = suspect & (sites.word1 == a64.MOV_X9_X30)
    suspect &= sites.word1 == a64.NOP
    if suspect.any():
        from prologue.kernel.tables import alternatives, jump_labels  # the build step starts without it

        suspect &= ~among(third, np.concatenate([jump_labels(binary).code, alternatives(binary)[0].words()]))
    half, count = len(sites) // 2, int(suspect.sum())
    if count <= half or count < _MANY:
        suspect &= binary.symbols.is_global_function(sites.first) & (sites.bti.sum() > half)
    return twice | suspect
