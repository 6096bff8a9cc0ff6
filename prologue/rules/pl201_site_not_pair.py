"""PL201: a site is neither NOP; NOP nor MOV X9, X30; NOP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.insn import a64
from prologue.rules.base import Hit, Rule, Subject
from prologue.rules.pl203_site_after_bti_broken import replaced_by_first

# An object of =2,2 or =3,2 has the function begin where the record says, and no two NOPs there; one of =1 has one NOP.
_OR_OTHER_FLAGS: Final = (
    "find what wrote there after the compiler, or compile that object with the flags of the kernel (CC_FLAGS_FTRACE in "
    "arch/arm64/Makefile): objects of -fpatchable-function-entry={} look like that; link again"
)


def check(subject: Subject) -> Iterator[Hit]:
    """Check both words of every site; PL203 reports a MOV before a landing pad, or in its place."""
    sites = subject.sites
    before_pad = (sites.word0 == a64.MOV_X9_X30) & (sites.word1 & a64.BTI_MASK == a64.BTI)
    first = a64.MOV_X9_X30 if 2 * int(sites.has_mov.sum()) > len(sites) else a64.NOP  # as most sites of the file
    wrong = ~(sites.has_nop | sites.has_mov | before_pad)
    if wrong.any():
        wrong[subject.binary.other_layouts.places] = False
        wrong &= ~replaced_by_first(subject.binary, sites)
    for k in np.flatnonzero(wrong).tolist():
        pair = (int(sites.word0[k]), int(sites.word1[k]))
        message = f"expected {first:08x} {a64.NOP:08x}, found {pair[0]:08x} {pair[1]:08x}"
        flags = "2,2 and =3,2" if sites.layout == "4,2" else "1" if pair[0] == a64.NOP else ""
        fix = _OR_OTHER_FLAGS.format(flags) if flags else ""
        yield Hit(int(sites.first[k]), message, pair, (first, a64.NOP), fix=fix)


RULE = Rule(
    code="PL201",
    slug="site-not-pair",
    severity="fatal",
    inputs=("V", "K"),
    finds_insns=True,
    what="A site whose two words are neither NOP; NOP nor MOV X9, X30; NOP.",
    why="ftrace compares before it writes: it reports `ftrace bug` and disables itself for that boot. Writing a MOV "
    "over a word that is not the compiler's NOP destroys code.",
    example="first slot a9bf7bfd (stp x29, x30, [sp, #-16]!)",
    fix="find what wrote there after the compiler; link again",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_init_nop", "ftrace_make_call" (6.12)',
    check=check,
    words=(0xA9BF7BFD, 0xD503201F),
)
