"""PL203: the MOV is where the landing pad must be.

In layout ``4,2`` the kernel takes the word 8 bytes after the record for the first slot if it is no BTI. So a tool that
knows no landing pads writes its MOV over them, and what it leaves looks like a site without a pad::

    literal; BTI C; NOP; NOP    ->    literal; MOV; NOP; NOP
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import Bool, among
from prologue.insn import a64
from prologue.kernel.binary import Binary
from prologue.kernel.sites import Sites, replaced_before
from prologue.rules.base import Hit, Rule, Subject

_MANY: Final = 8  # of 59,319 sites of Debian's modules, two have such a NOP


def check(subject: Subject) -> Iterator[Hit]:
    """Report a MOV right before a BTI, or one that begins a function whose pair comes after it."""
    binary, sites = subject.binary, subject.sites
    before = (sites.word0 == a64.MOV_X9_X30) & (sites.word1 & a64.BTI_MASK == a64.BTI)
    for k in np.flatnonzero(before).tolist():
        words = (int(sites.word0[k]), int(sites.word1[k]))
        yield Hit(int(sites.first[k]), "MOV X9, X30 before the BTI landing pad", words, (a64.BTI_C, a64.MOV_X9_X30))
    after_pad = sites.first[replaced_before(binary.symbols, sites)]
    entries = np.concatenate([after_pad - np.uint64(4), sites.first[replaced_by_first(binary, sites)]])
    after = binary.text.words(entries + np.uint64(4)).tolist()
    for entry, word in zip(entries.tolist(), after, strict=True):
        yield Hit(entry, "MOV X9, X30 in place of the BTI landing pad", (a64.MOV_X9_X30, word), (a64.BTI_C, a64.NOP))


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


RULE = Rule(
    code="PL203",
    slug="site-after-bti-broken",
    severity="fatal",
    inputs=("V", "K"),
    finds_insns=True,
    what="MOV X9, X30 before, or in place of, the BTI that begins a function.",
    why="An indirect call must land on a BTI; on a MOV it raises a Branch Target exception, and the kernel panics the "
    "first time that the function is called through a pointer.",
    example="aa1e03e9 mov x9, x30; d503245f bti c; d503201f nop",
    fix="link again, and process that file with a tool that looks for the BTI at each site",
    citation='Arm ARM DDI 0487 "BTI" (A64 base instructions) and "Branch Target exception"; '
    'kernel arch/arm64/kernel/ftrace.c "ftrace_call_adjust" (6.12)',
    check=check,
    words=(0xAA1E03E9, 0xD503245F, 0xD503201F),
)
