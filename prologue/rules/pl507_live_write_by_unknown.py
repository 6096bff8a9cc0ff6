"""PL507: kernel text was written by code that is not known to write it."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL507",
    slug="live-write-by-unknown",
    severity="error",
    inputs=("W",),
    what="A write to kernel text by a function that belongs to none of the kernel's mechanisms (ftrace, jump labels, "
    "kprobes, alternatives, relocation, runtime constants, dynamic SCS, KVM, BPF, static calls, module loading, kgdb), "
    "nor called by one.",
    why="Such a function follows no protocol that is known to be safe; root kits hook functions in this way.",
    example="a module stores a branch over the first instruction of a function",
    fix="find out from the call chain what it belongs to; a mechanism that is missing here is worth a report",
    citation="arch/arm64/kernel/patching.c and its callers, kernels 5.5 to 7.3",
)
