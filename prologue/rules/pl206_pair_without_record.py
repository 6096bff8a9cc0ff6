"""PL206: a patchable pair that no record lists."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.arrays import among, sorted_unique
from prologue.insn import a64
from prologue.insn.decode import find
from prologue.kernel.kernel import Kernel
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report MOV X9, X30; NOP anywhere in text, and NOP; NOP at a function's start, that are no site."""
    from prologue.kernel.unlisted import lost_table, without_owner

    binary = subject.binary
    if isinstance(binary, Kernel) and binary.unknown_records:
        return  # PL101, PL102, PL202: which pairs have a record is not known
    at_entries = binary.entry_pairs.unlisted
    known = np.concatenate([subject.sites.first, at_entries])
    other = binary.other_layouts.entry
    at_entries = at_entries[~among(at_entries, other) & ~among(at_entries - np.uint64(4), other)]  # PL208's
    lost = "PL112" in subject.codes and lost_table(binary) is not None  # then that one says so, once
    begun = [np.zeros(0, np.uint64)]
    for section in binary.text.text_sections:
        words = binary.text.view(section, "<u4")
        movs = find(words[:-1], (0xFFFFFFFF, a64.MOV_X9_X30))
        movs = movs[words[movs + 1] == a64.NOP]
        begun.append(np.uint64(section.addr) + movs.astype(np.uint64) * np.uint64(4))
    processed = np.concatenate(begun)
    pairs = at_entries[:0] if lost else without_owner(binary, at_entries)
    vaddrs = sorted_unique(np.concatenate([pairs, processed[~among(processed, known)]]))
    vaddrs = vaddrs[binary.is_code(vaddrs)]
    for vaddr, word in zip(vaddrs.tolist(), binary.text.words(vaddrs).tolist(), strict=True):
        pair_text = "MOV X9, X30; NOP" if word == a64.MOV_X9_X30 else "NOP; NOP at a function entry"
        yield Hit(vaddr, f"{pair_text}, but no record", (word, a64.NOP))


RULE = Rule(
    code="PL206",
    slug="pair-without-record",
    severity="warn",
    inputs=("V", "K"),
    finds_insns=True,
    what="MOV X9, X30; NOP, or NOP; NOP at a function entry, that no record lists. Where so many have none that the "
    "table was lost, PL112 says so instead.",
    why="The function looks traceable, but ftrace does not know it: its record was lost, or points elsewhere. A MOV "
    "without a record was written by a tool that does not follow the records.",
    example="vfs_read: d503201f d503201f, and no record holds its address",
    fix="find out what dropped the record: a discarded section, a tool that edits the table, or scripts/sorttable, "
    "which overlooks the function that nm lists after an undefined symbol (seen in 7.2, Clang with thin LTO; "
    "`prologue kernel patch --series sorttable-nm` mends that)",
    citation='kernel include/asm-generic/vmlinux.lds.h "MCOUNT_REC" (6.12), scripts/sorttable.c "parse_symbols" (7.2)',
    check=check,
    words=(0xD503201F, 0xD503201F),
)
