"""PL309: a jump label holds neither its NOP nor its branch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.insn import a64, cmodx
from prologue.insn.decode import B, matches
from prologue.insn.disasm import insn_text
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """The word at each entry's code address, and where it branches to; PL308 reports a word that is on no list."""
    from prologue.sites.tables import jump_labels

    binary = subject.binary
    labels = jump_labels(binary)
    mine = binary.text.in_text(labels.code)
    code, target = labels.code[mine], labels.target[mine]
    words = binary.text.words(code)
    branch = matches(words, B)
    good = (words == a64.NOP) | (branch & (binary.jump_targets(code, words) == target))
    for k in np.flatnonzero(~good & cmodx.listed_words(words, "new")).tolist():
        vaddr, word = int(code[k]), int(words[k])
        wanted = binary.symbols.locate(int(target[k]))
        yield Hit(vaddr, f"holds {insn_text(word, vaddr)}, expected NOP or a B to {wanted}", (word,), (a64.NOP,))


RULE = Rule(
    code="PL309",
    slug="jump-label-word",
    severity="error",
    inputs=("V", "K", "C"),
    release_may_leave_out=True,
    what="A jump label's instruction that is neither NOP nor the B that its `__jump_table` entry encodes.",
    why="The kernel switches the word between these two without reading it. Any other word there is another tool's "
    "edit, lost at the first switch, or a branch to a wrong place until then.",
    example="__jump_table: code vfs_read+0x20, target vfs_read+0x80; the word there:",
    fix="find what wrote there after the compiler; link again",
    citation='kernel arch/arm64/kernel/jump_label.c "arch_jump_label_transform", include/linux/jump_label.h (6.12)',
    check=check,
    words=(0x94000018,),
)
