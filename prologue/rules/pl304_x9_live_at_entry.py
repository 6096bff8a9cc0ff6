"""PL304: a function takes an argument in X9."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.insn.disasm import insn_text
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Paths that begin after a pair and reach a read of X9 before any write of it."""
    from prologue.sites.liveness import reads_of_x9

    binary, sites = subject.binary, subject.binary.sites
    if sites is None:
        return
    for read in reads_of_x9(binary):
        where = binary.symbols.locate(read.vaddr)
        text = insn_text(read.word, read.vaddr)
        message = f"X9 is read before it is written: {text} at {where}; the MOV would change what it reads"
        yield Hit(int(sites.first[read.site]), message, (read.word,))


RULE = Rule(
    code="PL304",
    slug="x9-live-at-entry",
    severity="error",
    inputs=("V", "K"),
    what="A function with a patch site that, on some path, reads X9 or W9 before it writes it. Calls, returns, BUG and "
    "indirect jumps end a path.",
    why="The MOV puts LR into X9. AAPCS64 allows that, since X9 holds no argument. Hand-written code with its own "
    "convention, or code that reads an uninitialised variable, would see LR there.",
    example="nop; nop; and after them, before any write of x9:",
    fix="exclude the function from tracing (notrace), or make it use another register",
    citation='AAPCS64 "General-purpose registers" (X9-X15 are temporary); kernel arch/arm64/kernel/ftrace.c (6.12)',
    check=check,
    words=(0xD503201F, 0xD503201F, 0x8B090000),
)
