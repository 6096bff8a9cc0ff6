"""PL401: moved records in a kernel that does not accept them."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Any moved record without the marker symbol: one hit for the file."""
    kernel, sites = subject.kernel, subject.kernel.sites
    if sites is None or kernel.marker is not None or not sites.moved.any():
        return
    count, first = int(sites.moved.sum()), int(sites.first[int(sites.moved.argmax())])
    yield Hit(first, f"{count} records point at second slots, but this kernel has no __ftrace_prologue_marker")


RULE = Rule(
    code="PL401",
    slug="kernel-cannot-accept-moved-records",
    severity="fatal",
    inputs=("V",),
    decides_writing=True,
    what="Moved records in a kernel without `__ftrace_prologue_marker`.",
    why="No unmodified kernel from 5.5 to 7.2 accepts a moved record: it adds its own adjustment, and takes the second "
    "slot for the first one. 6.1 boots without a message: it finds the NOP there and writes a second MOV, and ftrace "
    "disables itself at the first function that is traced. 6.12 with CALL_OPS panics in `ftrace_init`. This project "
    "booted both in QEMU: 6.1.192 and 6.12.107 of Debian.",
    example="43880 records at second slots, no marker",
    fix="build the kernel with CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE, or reverse the plan",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_call_adjust", "ftrace_init_nop" (5.5-7.2)',
    check=check,
    words=(0xAA1E03E9, 0xD503201F),
)
