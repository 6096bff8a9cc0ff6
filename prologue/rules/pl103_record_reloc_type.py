"""PL103: a record is relocated by something other than R_AARCH64_RELATIVE."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Check the types of the RELA entries that touch the table."""
    records = subject.binary.records
    expected = "R_AARCH64_ABS64 (0x101)" if subject.binary.relocatable else "R_AARCH64_RELATIVE (0x403)"
    for vaddr, kind in records.bad_types if records else ():
        yield Hit(vaddr, f"relocation type {kind:#x}, expected {expected}")


RULE = Rule(
    code="PL103",
    slug="record-reloc-type",
    severity="fatal",
    inputs=("V", "K"),
    what="An mcount record with a relocation that is not R_AARCH64_RELATIVE; in a module, not R_AARCH64_ABS64.",
    why="The kernel's early relocation code applies R_AARCH64_RELATIVE only and skips everything else: the record "
    "would stay as it is in the file. In a module any other type writes something that is not an 8-byte address.",
    example=".rela.dyn: R_AARCH64_ABS64 (0x101) at 0xffff800009462960",
    fix="for a vmlinux: link with -Bsymbolic, as the kernel's Makefile does, so that local addresses need no symbol",
    fix_of_module="build the module again: compilers emit R_AARCH64_ABS64 for records, so a later step changed it",
    citation='AAELF64 "Dynamic relocations"; kernel arch/arm64/kernel/pi/relocate.c (6.12)',
    check=check,
)
