"""PL206: a patchable pair that no record lists."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue import a64
from prologue.rules.base import Hit, Rule, Subject
from prologue.sites.alternatives import alternative_words


def check(subject: Subject) -> Iterator[Hit]:
    """MOV X9, X30; NOP anywhere in text, and NOP; NOP where a function begins, that are no site."""
    kernel, sites = subject.kernel, subject.kernel.sites
    if sites is None:
        return
    replaced = alternative_words(kernel.image)
    for section in kernel.image.text:
        words = kernel.image.view(section, "<u4")
        second_nop = words[1:] == a64.NOP
        movs = np.flatnonzero((words[:-1] == a64.MOV_X9_X30) & second_nop)
        nops = np.flatnonzero((words[:-1] == a64.NOP) & second_nop)
        pairs = np.uint64(section.addr) + nops.astype(np.uint64) * np.uint64(4)
        behind_bti = (words[np.maximum(nops - 1, 0)] & a64.BTI_MASK == a64.BTI) & (nops > 0)
        begins = kernel.symbols.is_function_start(np.where(behind_bti, pairs - np.uint64(4), pairs))
        vaddrs = np.uint64(section.addr) + np.union1d(movs, nops[begins]).astype(np.uint64) * np.uint64(4)
        # Hand-written functions may begin with NOPs that alternatives fill in at boot.
        for vaddr in np.setdiff1d(np.setdiff1d(vaddrs, sites.first), replaced).tolist():
            word = int(words[(vaddr - section.addr) // 4])
            what = "MOV X9, X30; NOP" if word == a64.MOV_X9_X30 else "NOP; NOP at a function entry"
            yield Hit(vaddr, f"{what}, but no record", (word, a64.NOP))


RULE = Rule(
    code="PL206",
    slug="pair-without-record",
    severity="warn",
    inputs=("V", "K"),
    what="MOV X9, X30; NOP, or NOP; NOP at a function entry, that no record lists.",
    why="The function looks traceable, but ftrace does not know it: its record was lost, or points elsewhere. A MOV "
    "without a record was written by something that did not go by the records.",
    example="vfs_read: d503201f d503201f, and no record holds its address",
    fix="find out what dropped the record: a discarded section, or a tool that edits the table",
    citation='kernel include/asm-generic/vmlinux.lds.h "MCOUNT_REC" (6.12)',
    check=check,
)
