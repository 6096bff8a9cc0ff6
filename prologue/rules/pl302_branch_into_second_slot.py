"""PL302: a branch that skips the MOV."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.kernel.text import SlotMap
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Check every direct branch in every text section, except data in text."""
    binary, sites = subject.binary, subject.sites
    if not len(sites):
        return
    # After a landing pad the first slot is no valid target either: such a branch skips the pad.
    forbidden = SlotMap(binary.text, np.concatenate([sites.second, sites.first[sites.bti]]))
    for section in binary.text.text_sections:
        index, target = binary.branches(section)
        hits = np.flatnonzero(forbidden.contains(target))
        if not len(hits):
            continue
        is_code, words = binary.symbols.is_code(section), binary.text.view(section, "<u4")
        for k in hits[is_code[index[hits]]].tolist():
            where = binary.symbols.locate(int(target[k]))
            vaddr = section.addr + 4 * int(index[k])
            yield Hit(vaddr, f"branches to {where}, past the MOV", (int(words[index[k]]),))


RULE = Rule(
    code="PL302",
    slug="branch-into-second-slot",
    severity="fatal",
    inputs=("V", "K"),
    what="A direct branch (B, BL, B.cond, BC.cond, CBZ, CBNZ, TBZ, TBNZ, CBGT and its kind) to a second slot, or to "
    "a first slot past its landing pad.",
    why="Such a branch to the second slot skips MOV X9, X30. When the slot is a BL, LR is overwritten and X9 holds an "
    "old value: the function returns to a wrong place.",
    example="14000041 b vfs_read+0x4",
    fix="find the hand-written or rewritten branch; compilers branch to the function's entry only",
    citation='kernel arch/arm64/kernel/entry-ftrace.S "ftrace_caller" (6.12), which takes X9 for the caller\'s LR',
    check=check,
    finds_insns=True,
    words=(0x14000041,),
)
