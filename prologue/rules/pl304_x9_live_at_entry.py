"""PL304: a function takes an argument in X9, or keeps a value there over a call."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report paths from a pair, or from a call of a traced function, to a read of X9 without a write before it."""
    from prologue.flow.liveness import Liveness

    binary, sites = subject.binary, subject.sites
    if not len(sites) or binary.unnamed_functions:
        return
    liveness, locate = Liveness(binary), binary.symbols.locate
    for lost in liveness.over_calls:
        text = binary.insn_text(lost.word, lost.vaddr)
        through = f", which jumps to {locate(lost.traced)}" if lost.callee != lost.traced else ""
        message = (
            f"X9 is expected to survive this call of {locate(lost.callee)}{through}: {text} at {locate(lost.vaddr)} "
            "reads it; the MOV of the callee would change what it reads"
        )
        yield Hit(lost.call, message, (lost.word,))
    for read in liveness.at_entries():
        text = binary.insn_text(read.word, read.vaddr)
        message = f"X9 is read before it is written: {text} at {locate(read.vaddr)}; the MOV would change what it reads"
        yield Hit(int(sites.first[read.site]), message, (read.word,))


RULE = Rule(
    code="PL304",
    slug="x9-live-at-entry",
    severity="error",
    inputs=("V", "K"),
    what="A function with a patch site that, on some path, reads X9 or W9 before it writes it. Or a direct call of "
    "such a function, on one path after which the caller reads X9 or W9 before it writes it. Returns, BUG, indirect "
    "jumps and calls end a path; a call that keeps X9 itself, and one of a function that does not return, do not. A "
    "branch that a constant decides goes one way only, a jump label both.",
    why="The MOV puts LR into X9. AAPCS64 allows that, since X9 holds no argument and no call preserves it. Code with "
    "a convention of its own (assembly, Clang's preserve_most and preserve_all), or code that reads an uninitialised "
    "variable, would see LR there.",
    example="nop; nop; and after them, before any write of x9:",
    fix="exclude the function from tracing (notrace), or make it, or its caller, use another register",
    citation='AAPCS64 "General-purpose registers" (X9-X15 are temporary); Clang "Attributes in Clang", preserve_most; '
    'kernel arch/arm64/kernel/entry-ftrace.S "return_to_handler" (6.12), which keeps X0-X7 only',
    check=check,
    words=(0xD503201F, 0xD503201F, 0x8B090000),
)
