"""PL310: a live transition that only newer issues of the Arm ARM list."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.insn import cmodx
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report live words that differ between before and after, if one of the two is a conditional branch."""
    from prologue.kernel.live_words import changed

    for change in changed(subject.linked_before, subject.binary):
        listed = cmodx.judge(change.old, change.new, "new").allowed
        if listed and not cmodx.judge(change.old, change.new, "old").allowed:
            yield Hit(change.vaddr, f"{change}, listed in newer issues only", (change.new,), (change.old,))


RULE = Rule(
    code="PL310",
    slug="conditional-transition",
    severity="warn",
    inputs=("C", "P", "W"),
    what="A word that the kernel changes live, and that changed to or from a conditional branch (B.cond, CBZ, CBNZ, "
    "TBZ, TBNZ).",
    why="Older issues of the Arm ARM do not list conditional branches, and CPUs were built to these issues. Where "
    "they are listed, a CPU may still take the condition of one instruction and the target of the other.",
    example="jump label was a B.EQ and is a NOP now",
    fix="use NOP and B; if every CPU that you support follows a newer issue, put it into the baseline with that reason",
    citation=cmodx.CITATION + "; herdtools7 is inconsistent on B.cond",
    check=check,
    finds_insns=True,
    words=(0x54000100, 0xD503201F),
)
