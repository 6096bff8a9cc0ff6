"""PL309: a jump label holds neither its NOP nor its branch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from prologue.insn import a64, cmodx
from prologue.insn.decode import B, matches
from prologue.rules.base import Hit, Rule, Subject

if TYPE_CHECKING:
    from prologue.kernel.binary import Binary
    from prologue.kernel.tables import JumpLabels


def check(subject: Subject) -> Iterator[Hit]:
    """Check the word at each entry's code address, and its target.

    PL308, if it runs, reports a word that is on no list.
    """
    from prologue.kernel.tables import jump_labels

    binary = subject.binary
    labels = jump_labels(binary)
    in_text = binary.text.in_text(labels.code)
    if not subject.running:  # in memory, code may be gone
        for k, message in _impossible_entries(binary, labels):
            yield Hit(int(labels.code[k] if in_text[k] else labels.entries[k]), message)
            in_text[k] = False  # its target says nothing of the word
    code, target = labels.code[in_text], labels.target[in_text]
    words = binary.text.words(code)
    branch = matches(words, B)
    wrong = (words != a64.NOP) & ~(branch & (binary.jump_targets(code, words) == target))
    if "PL308" in subject.codes:
        wrong &= cmodx.listed_words(words, "new")
    for k in np.flatnonzero(wrong).tolist():
        vaddr, word = int(code[k]), int(words[k])
        wanted = binary.symbols.locate(int(target[k]))
        message = f"holds {binary.insn_text(word, vaddr)}, expected NOP or a B to {wanted}"
        yield Hit(vaddr, message, (word,), (a64.NOP,))


def _impossible_entries(binary: Binary, labels: JumpLabels) -> Iterator[tuple[int, str]]:
    """Find entries that no ``asm goto`` makes: it jumps from an instruction to another one of the same function."""
    starts, symbols = binary.symbols.function_starts, binary.symbols
    places = labels.code, labels.target
    owners = [np.append(starts, np.uint64(0))[np.searchsorted(starts, place, side="right") - 1] for place in places]
    inside = binary.text.in_text(labels.code) & binary.text.in_text(labels.target)
    odd = np.flatnonzero(~inside | (owners[0] != owners[1]))
    if not len(odd):
        return
    # Compilers split functions: vfs_read.cold is of vfs_read.
    names = [[(w.symbol or "").partition(".")[0] for w in symbols.locate_all(o[odd].tolist())] for o in owners]
    wheres = [symbols.locate_all(place[odd].tolist()) for place in places]
    for k, code, target, from_function, to_function in zip(odd.tolist(), *wheres, *names, strict=True):
        if not inside[k]:
            yield k, f"encodes a B from {code} to {target}: not both are instructions"
        elif from_function != to_function:
            yield k, f"encodes a B from {code} to {target}: another function"


RULE = Rule(
    code="PL309",
    slug="jump-label-word",
    severity="error",
    inputs=("V", "K", "C"),
    what="A jump label's instruction that is neither NOP nor the B that its `__jump_table` entry encodes; or an entry "
    "whose B would not lead from an instruction to another one of the same function, as compilers make them.",
    why="The kernel switches the word between these two without reading it. Any other word there is another tool's "
    "edit, lost at the first switch, or a branch to a wrong place until then.",
    example="__jump_table: code vfs_read+0x20, target vfs_read+0x80; the word there:",
    fix="find what wrote there, or to `__jump_table`, after the compiler; link again",
    citation='kernel arch/arm64/kernel/jump_label.c "arch_jump_label_transform", include/linux/jump_label.h (6.12)',
    check=check,
    words=(0x94000018,),
)
