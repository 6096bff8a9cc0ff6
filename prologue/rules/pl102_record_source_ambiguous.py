"""PL102: a record's value comes from two relocations, or from none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.rules.base import Hit, Rule, Subject
from prologue.words import counted


def check(subject: Subject) -> Iterator[Hit]:
    """Check for exactly one of RELA and RELR, or the slot alone in a kernel that does not relocate itself."""
    from prologue.kernel.relocating import table_mismatches

    kernel, records = subject.kernel, subject.kernel.records
    if records is None:
        return
    if kernel.lost_relocations:
        why = ", and ".join(kernel.relocates_itself)
        yield Hit(
            int(records.vaddrs[0]),
            f"no RELA or RELR entry relocates any of {counted(len(records), 'record')}, but this kernel relocates "
            f"itself: {why}",
        )
        return
    vaddrs = records.vaddrs
    for vaddr, message in table_mismatches(kernel.image, kernel.symbols):
        yield Hit(vaddr, message)
    if records.form == "offsets":
        return  # which nothing may relocate: PL113
    for vaddr in records.misaligned:
        yield Hit(vaddr, "a relocation overlaps two records")
    for k in np.flatnonzero(records.rela_count > 1).tolist():
        yield Hit(int(vaddrs[k]), f"{int(records.rela_count[k])} RELA entries write this record")
    for k in np.flatnonzero((records.rela_count > 0) & records.relr).tolist():
        yield Hit(int(vaddrs[k]), "both RELA and RELR relocate this record")
    if records.rela.any() or records.relr.any():
        bare = (records.rela_count == 0) & ~records.relr & (records.slots != 0)
        for k in np.flatnonzero(bare).tolist():
            yield Hit(
                int(vaddrs[k]), "no relocation for this record, although others have one", (int(records.slots[k]),)
            )


RULE = Rule(
    code="PL102",
    slug="record-source-ambiguous",
    severity="fatal",
    inputs=("V",),
    what="A record that is relocated twice, by RELA and RELR at once, across a slot boundary, or not at all; a kernel "
    "that relocates itself and none of its records; a relocation table that is not where the kernel's symbols say.",
    why="The kernel relocates itself before `ftrace_init`. A record without its relocation keeps a link-time address "
    "under KASLR; one with two gets the offset twice or the wrong value, and ftrace writes text there. A kernel linked "
    "without CONFIG_RELOCATABLE has no relocations, and needs none.",
    example=".rela.dyn: two R_AARCH64_RELATIVE with r_offset 0xffff800009462960",
    fix="link again; if a post-link step edits or removes relocations (objcopy -R .relr.dyn), check that step",
    citation='System V gABI "Relocation" and DT_RELR; kernel arch/arm64/kernel/pi/relocate.c (6.12)',
    check=check,
)
