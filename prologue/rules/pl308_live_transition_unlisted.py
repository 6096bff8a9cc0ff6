"""PL308: the kernel can make a live transition that the architecture does not list."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.insn import cmodx
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Check words that the kernel patches live: the present instruction, and the one before, must be listed.

    PL201 reports a second slot that is no NOP, PL309 a jump label whose word is listed but wrong.
    """
    from prologue.kernel.live_words import changed, live_words

    binary = subject.binary
    for what, vaddrs in live_words(binary):
        if what == "second slot":
            continue
        words = binary.text.words(vaddrs)
        for k in np.flatnonzero(~cmodx.listed_words(words, "new")).tolist():
            vaddr, word = int(vaddrs[k]), int(words[k])
            insn = binary.insn_text(word, vaddr)
            message = f"{what} holds {insn}, which is on no issue's list, and is patched live"
            yield Hit(vaddr, message, (word,))
    for change in changed(subject.linked_before, binary):
        if not cmodx.judge(change.old, change.new, "new").allowed and cmodx.listed(change.new, "new"):
            yield Hit(change.vaddr, f"{change}, not listed in any issue", (change.new,), (change.old,))


RULE = Rule(
    code="PL308",
    slug="live-transition-unlisted",
    severity="fatal",
    inputs=("V", "K", "C", "P", "W"),
    what="A word that the kernel changes while CPUs run it (second slots, jump labels, `ftrace_call`) whose old or new "
    "instruction is not on the list of any issue of the Arm ARM.",
    why="For such a pair the architecture promises nothing: a CPU may execute neither instruction. No order of "
    "writes and no synchronisation between them helps a CPU that is executing the word.",
    example="jump label holds a MOV; the kernel replaces it with a B while others run",
    fix="put a NOP (d503201f, not another HINT) or the right branch there; link again",
    citation=cmodx.CITATION,
    check=check,
    finds_insns=True,
    words=(0xAA1E03E9, 0x14000002),
)
