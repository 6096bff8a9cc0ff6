"""PL408: a kernel whose boot writes no prologues, and that has none."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.kernel.init_path import ENTRY, reaches_init_nop
from prologue.kernel.init_stub import FUNCTION
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report a vmlinux without any MOV whose ``ftrace_init`` no longer leads to ``ftrace_init_nop``."""
    kernel, sites = subject.kernel, subject.sites
    if not sites.has_nop.any() or sites.has_mov.any():
        return
    entry = kernel.symbols.find(ENTRY)
    if entry is not None and reaches_init_nop(kernel.text, kernel.symbols) is False:
        yield Hit(
            entry.vaddr,
            f"{ENTRY} does not lead to {FUNCTION}, and none of {len(sites)} sites holds the MOV: LR would be lost",
        )


RULE = Rule(
    code="PL408",
    slug="bench-variant",
    severity="fatal",
    inputs=("V",),
    what="A vmlinux of which no site holds the MOV and whose `ftrace_init` does not lead to `ftrace_init_nop`, as in "
    "the bench's `nop-nop` variants.",
    why="The boot writes no prologue and the build wrote none. A `BL` in a second slot then overwrites LR, which no "
    "instruction has saved: the first traced function does not return to its caller.",
    example="ftrace_init: RET, and 43880 sites d503201f d503201f",
    fix="release another kernel: this one is for `prologue bench` only, and must not be traced",
    citation='kernel kernel/trace/ftrace.c "ftrace_init", "ftrace_process_locs" (6.12)',
    check=check,
    words=(0xD65F03C0,),
)
