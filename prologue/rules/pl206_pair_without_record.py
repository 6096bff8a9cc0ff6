"""PL206: a patchable pair that no record lists."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.arrays import U64, among, sorted_unique
from prologue.insn import a64
from prologue.insn.decode import find
from prologue.rules.base import Hit, Rule, Subject
from prologue.sites.binary import Binary
from prologue.sites.slotmap import SlotMap


def check(subject: Subject) -> Iterator[Hit]:
    """MOV X9, X30; NOP anywhere in text, and NOP; NOP where a function begins, that are no site."""
    from prologue.sites.tables import alternatives, jump_labels

    binary, sites = subject.binary, subject.binary.sites
    if sites is None:
        return
    own = SlotMap(binary.text, sites.first)
    pairs = _pairs_at_entries(binary)
    pairs = pairs[~own.contains(pairs)]
    other = binary.other_layouts.entry
    pairs = pairs[~among(pairs, other) & ~among(pairs - np.uint64(4), other)]  # at it, or after its landing pad
    if len(pairs):
        # Functions may begin with NOPs that alternatives replace, or that are jump labels; none with MOV X9, X30.
        labels = jump_labels(binary).code
        owned = np.concatenate([alternatives(binary)[0].words(), labels, labels - np.uint64(4)])
        pairs = pairs[~among(pairs, owned)]
    found = [pairs]
    for section in binary.text.text_sections:
        words = binary.text.view(section, "<u4")
        movs = find(words[:-1], (0xFFFFFFFF, a64.MOV_X9_X30))
        movs = movs[words[movs + 1] == a64.NOP]
        vaddrs = np.uint64(section.addr) + movs.astype(np.uint64) * np.uint64(4)
        found.append(vaddrs[~own.contains(vaddrs)])
    vaddrs = sorted_unique(np.concatenate(found))
    vaddrs = vaddrs[binary.is_code(vaddrs)]
    for vaddr, word in zip(vaddrs.tolist(), binary.text.words(vaddrs).tolist(), strict=True):
        what = "MOV X9, X30; NOP" if word == a64.MOV_X9_X30 else "NOP; NOP at a function entry"
        yield Hit(vaddr, f"{what}, but no record", (word, a64.NOP))


def _pairs_at_entries(binary: Binary) -> U64:
    """Addresses of NOP; NOP that begin a function, or follow the landing pad that does."""
    starts = binary.symbols.function_starts
    words = binary.text.words_around(starts, (0, 1, 2))
    bare = (words[0] == a64.NOP) & (words[1] == a64.NOP)
    padded = (words[0] & a64.BTI_MASK == a64.BTI) & (words[1] == a64.NOP) & (words[2] == a64.NOP)
    return np.concatenate([starts[bare], starts[padded] + np.uint64(4)])


RULE = Rule(
    code="PL206",
    slug="pair-without-record",
    severity="warn",
    inputs=("V", "K"),
    finds_insns=True,
    what="MOV X9, X30; NOP, or NOP; NOP at a function entry, that no record lists.",
    why="The function looks traceable, but ftrace does not know it: its record was lost, or points elsewhere. A MOV "
    "without a record was written by a tool that does not follow the records.",
    example="vfs_read: d503201f d503201f, and no record holds its address",
    fix="find out what dropped the record: a discarded section, a tool that edits the table, or scripts/sorttable, "
    "which overlooks the function that nm lists after an undefined symbol (seen in 7.2, Clang with thin LTO)",
    citation='kernel include/asm-generic/vmlinux.lds.h "MCOUNT_REC" (6.12), scripts/sorttable.c "parse_symbols" (7.2)',
    check=check,
    words=(0xD503201F, 0xD503201F),
)
