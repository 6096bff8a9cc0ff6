"""PL512: read-only data of a running kernel were written."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL512",
    slug="readonly-data-changed",
    severity="error",
    inputs=("C",),
    what="A word between `__start_rodata` and `__end_rodata` that is not as linked plus the slide: an entry of the "
    "table of system calls, a function of an operations table, a string. Alternatives of the vDSO are known. Of what "
    "is read-only after init, pointers to functions must lead to code that somebody owns.",
    why="Nothing of the kernel writes there after boot. Whoever changes a pointer there lets the kernel call other "
    "code, without a change of text and without a listener.",
    example="sys_call_table+0x340 leads into a module that is in no list",
    fix="take a dump from outside for evidence; find out what is where the pointer leads",
    citation="kernel include/asm-generic/vmlinux.lds.h RO_DATA, arch/arm64/mm/mmu.c mark_rodata_ro (6.1-7.3)",
)
