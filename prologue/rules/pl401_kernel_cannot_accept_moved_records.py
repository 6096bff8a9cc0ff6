"""PL401: moved records that no kernel accepts: in a kernel without the marker, or in a module."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.kernel.kernel import Kernel
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report moved records without the marker symbol; in a module, if all are moved. One hit for the file.

    A mixture in a module is PL110's.
    """
    binary, sites = subject.binary, subject.sites
    if not sites.moved.any():
        return
    count, first = int(sites.moved.sum()), int(sites.first[int(sites.moved.argmax())])
    if isinstance(binary, Kernel):
        if binary.marker is None:
            point = "record points at its second slot" if count == 1 else "records point at second slots"
            yield Hit(first, f"{count} {point}, but this kernel has no __ftrace_prologue_marker")
    elif sites.moved.all():
        yield Hit(first, f"its records point at second slots ({count}): a kernel that loads it adjusts them once more")


RULE = Rule(
    code="PL401",
    slug="kernel-cannot-accept-moved-records",
    severity="fatal",
    inputs=("V", "K"),
    what="Moved records in a kernel without `__ftrace_prologue_marker`, or in a module.",
    why="No unmodified kernel from 5.5 to 7.2 accepts a moved record: it adds its own adjustment, and takes the second "
    "slot for the first one. 6.1 boots without a message: it finds the NOP there and writes a second MOV, and ftrace "
    "disables itself at the first function that is traced. 6.12 with CALL_OPS panics in `ftrace_init`. This project "
    "booted both in QEMU: 6.1.192 and 6.12.107 of Debian. A kernel with the marker takes only its own records as they "
    "are: those of modules are always adjusted.",
    example="43880 records at second slots, no marker",
    fix="build the kernel with CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE, or reverse the plan; build a module again, and "
    "process it with `prologue patch`, which leaves its records",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_call_adjust", "ftrace_init_nop" (5.5-7.2)',
    check=check,
    words=(0xAA1E03E9, 0xD503201F),
)
