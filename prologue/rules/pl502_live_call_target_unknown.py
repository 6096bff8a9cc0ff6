"""PL502: a second slot of a running kernel calls unknown code."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL502",
    slug="live-call-target-unknown",
    severity="error",
    inputs=("C",),
    what="On a running kernel, a second slot (or `ftrace_call`) that calls what ftrace does not know: neither "
    "`ftrace_caller` (`ftrace_regs_caller`), nor the PLT entry of a module for it, nor the direct trampoline "
    "of the `ftrace_ops` that the site belongs to.",
    why="Every call of that function runs foreign code first. This is how code hooks a function without ftrace.",
    example="second slot of vfs_read: BL to an address in a module that registered nothing with ftrace",
    fix="find out what is at the target; take a dump for evidence, and boot the machine from a known image",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_find_callable_addr", "ftrace_update_ftrace_func" (6.1-7.2)',
    words=(0xAA1E03E9, 0x94123456),
)
