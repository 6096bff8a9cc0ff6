"""PL305: another table names one of a site's words."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.arrays import U64, sorted_unique
from prologue.kernel.binary import Binary
from prologue.kernel.text import SlotMap
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Check both words of every site against jump labels, alternatives, constants, exception, bug and unwind tables.

    And against the kprobe blacklist.
    """
    from prologue.flow import unwind
    from prologue.kernel import tables

    binary, sites = subject.binary, subject.sites
    if not len(sites):
        return
    slots = SlotMap(binary.text, np.concatenate([sites.first, sites.second]))
    for owner, vaddrs in _named(binary):
        for vaddr in sorted_unique(vaddrs[slots.contains(vaddrs)]).tolist():
            yield Hit(vaddr, f"is {owner} and a word of a patch site")
    # A blacklisted function may begin at its first slot; no function begins at a second slot.
    inside = SlotMap(binary.text, np.concatenate([sites.second, sites.first[sites.bti]]))
    entries = tables.kprobe_blacklist(binary)
    for vaddr in sorted_unique(entries[inside.contains(entries)]).tolist():
        yield Hit(vaddr, "is in the kprobe blacklist, as if a function began there, and is a word of a patch site")
    signing = unwind.pac_words(binary)
    for vaddr in signing[slots.contains(signing)].tolist():
        yield Hit(
            vaddr, "is taken for PACIASP or AUTIASP by the unwind table, and a patch site's word", severity="error"
        )


def _named(binary: Binary) -> Iterator[tuple[str, U64]]:
    from prologue.kernel import tables

    labels = tables.jump_labels(binary)
    yield "a jump label", labels.code
    yield "the target of a jump label", labels.target[binary.second_slots.contains(labels.target)]
    original, replacement = tables.alternatives(binary)
    yield "replaced by an alternative", original.words()
    yield "an alternative's replacement", replacement.words()
    insn, fixup = tables.exception_words(binary)
    yield "an instruction with an exception fixup", insn
    yield "an exception fixup", fixup
    yield "the BRK of a BUG or WARN", tables.bug_words(binary)[0]
    yield "part of a runtime constant", tables.runtime_constants(binary)


RULE = Rule(
    code="PL305",
    slug="site-overlaps-other-patcher",
    severity="fatal",
    inputs=("V", "K"),
    what="A word of a site that is also a jump label (or, for the second slot, its target), an alternative's "
    "original or replacement, an instruction or fixup of the exception table, a BUG's BRK, part of a runtime constant, "
    "or, inside the pair, a blacklisted address. Only error: a word that the unwind table, by which dynamic SCS "
    "rewrites text, takes for PACIASP or AUTIASP.",
    why="Two parts of the kernel write one word, and each expects its own old value: the second one corrupts the "
    "function, or ends in `ftrace bug`. A fixup or label there leads past the MOV into the second slot. Dynamic SCS "
    "leaves a word alone that is neither PACIASP nor AUTIASP, but then a push or a pop is missing elsewhere.",
    example="__jump_table: code vfs_read+0x4",
    fix="find which of the two tables is wrong; link again",
    citation="kernel include/linux/jump_label.h, arch/arm64/include/asm/alternative.h, asm/extable.h, "
    "asm/runtime-const.h, kernel/pi/patch-scs.c (6.12)",
    check=check,
    words=(0xD503201F, 0x14000018),
)
