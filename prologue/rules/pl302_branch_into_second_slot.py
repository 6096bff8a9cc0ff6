"""PL302: a branch that jumps over the MOV."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue import a64
from prologue.elf.image import U64, Bool, Section
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Every direct branch in every text section, data in text left out."""
    kernel, sites = subject.kernel, subject.kernel.sites
    if sites is None or not len(sites):
        return
    # Behind a landing pad the first slot is no place to branch to either: the pad was skipped.
    forbidden = np.concatenate([sites.second, sites.first[sites.bti]])
    maps = [(section.addr, _map_of(section, forbidden)) for section in kernel.image.text]
    for section in kernel.image.text:
        words = kernel.image.view(section, "<u4")
        index, target = a64.branches(words, section.addr)
        hits = np.flatnonzero(_any_marked(target, maps))
        if not len(hits):
            continue
        is_code = kernel.symbols.is_code(section)
        for k in hits[is_code[index[hits]]].tolist():
            where = kernel.symbols.locate(int(target[k]))
            vaddr = section.addr + 4 * int(index[k])
            yield Hit(vaddr, f"branches to {where}, behind the MOV", (int(words[index[k]]),))


def _map_of(section: Section, forbidden: U64) -> Bool:
    """Which words of the section must not be branched to."""
    marked = np.zeros(section.size // 4, np.bool_)
    inside = forbidden[(forbidden >= np.uint64(section.addr)) & (forbidden < np.uint64(section.addr + section.size))]
    marked[((inside - np.uint64(section.addr)) >> np.uint64(2)).astype(np.int64)] = True
    return marked


def _any_marked(target: U64, maps: list[tuple[int, Bool]]) -> Bool:
    """Which targets are marked in any section; a look-up in a map beats a search for 600,000 branches."""
    result = np.zeros(len(target), np.bool_)
    for base, marked in maps:
        word = (target - np.uint64(base)) >> np.uint64(2)
        inside = np.flatnonzero(word < len(marked))
        result[inside] |= marked[word[inside].astype(np.int64)]
    return result


RULE = Rule(
    code="PL302",
    slug="branch-into-second-slot",
    severity="fatal",
    inputs=("V", "K"),
    what="A direct branch (B, BL, B.cond, CBZ, CBNZ, TBZ, TBNZ) to a second slot, or between a landing pad and it.",
    why="Whoever comes that way has not executed MOV X9, X30. When the slot is a BL, LR is overwritten and X9 is "
    "whatever it was: the function returns to a wrong place.",
    example="14000041 b vfs_read+0x4",
    fix="find the hand-written or rewritten branch; compilers branch to the function's entry only",
    citation='kernel arch/arm64/kernel/entry-ftrace.S "ftrace_caller" (6.12), which takes X9 for the caller\'s LR',
    check=check,
)
