"""PL501: a first slot of a running kernel holds no MOV."""

from __future__ import annotations

from prologue.rules.base import Rule

RULE = Rule(
    code="PL501",
    slug="live-first-slot-not-mov",
    severity="error",
    inputs=("C",),
    what="On a running kernel, a first slot that does not hold `MOV X9, X30`.",
    why="The site can be traced at any time: BL in the second slot overwrites X30, and without the MOV the return "
    "address is lost. A NOP there means that `ftrace_init` failed or never saw the record; anything else was "
    "written by code that does not know of ftrace.",
    example="first slot of vfs_read holds NOP although the kernel has booted",
    fix="look for `ftrace bug` in the kernel log; do not trace this kernel until it has been booted again",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_init_nop" (6.1-7.2)',
    words=(0xD503201F, 0x94000400),
)
