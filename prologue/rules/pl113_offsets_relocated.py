"""PL113: a relocation writes into a table of offsets."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report RELA entries of any type, and RELR, that write some of a processed kernel's table (marker version 2)."""
    kernel, bounds = subject.kernel, subject.kernel.bounds
    if bounds is None or kernel.records is None or kernel.records.form != "offsets":
        return
    from prologue.kernel.offset_table import relocations_of_table

    for vaddr in relocations_of_table(kernel.image, bounds).tolist():
        yield Hit(vaddr, "is relocated, but holds offsets, which are the same wherever the kernel runs")


RULE = Rule(
    code="PL113",
    slug="offsets-relocated",
    severity="fatal",
    inputs=("V",),
    what="A relocation that writes into the record table of a kernel whose records are 32-bit offsets from `_text`.",
    why="The kernel relocates itself before it reads the table: the relocation overwrites two offsets with an address, "
    "or adds the KASLR offset to them. ftrace then finds no site there, and disables itself at the first traced "
    "function.",
    example=".rela.dyn: R_AARCH64_RELATIVE at 0xffff800082463960, in the table of offsets",
    fix="link again, and process the result: `prologue patch` takes all relocations of the table out; if a later step "
    "makes relocations, run it before",
    citation='prologue help kernel-contract "Version 2"; kernel arch/arm64/kernel/pi/relocate.c (6.12)',
    check=check,
)
