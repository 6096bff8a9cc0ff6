"""PL101: the record table has no usable bounds."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Check that the bounds bound a table; a kernel with ``ftrace_init`` and without their symbols was stripped."""
    bounds = subject.kernel.bounds
    if bounds is not None and bounds.problem:
        yield Hit(bounds.vaddr, bounds.problem)


RULE = Rule(
    code="PL101",
    slug="mcount-bounds-missing",
    severity="fatal",
    inputs=("V",),
    what="`__start_mcount_loc` and `__stop_mcount_loc` are swapped, not 8-aligned, or bound no bytes of the file. "
    "(Where one of them is gone, the file was stripped, and is bad input.)",
    why="`ftrace_init` walks the table between these two symbols as an array of 8-byte addresses; with wrong bounds "
    "it patches text at stray addresses.",
    example="ffff800009462964 D __start_mcount_loc      (4 bytes into a record)",
    fix="link again; check MCOUNT_REC in the linker script and that the file is the unstripped vmlinux",
    citation='kernel include/asm-generic/vmlinux.lds.h "MCOUNT_REC" and kernel/trace/ftrace.c "ftrace_init" (6.12)',
    check=check,
)
