"""PL306: a second slot cannot reach the trampoline with a BL."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.insn import a64
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Check the distance from each second slot to ``ftrace_caller``."""
    caller, second = subject.kernel.symbols.find("ftrace_caller"), subject.sites.second
    if caller is None:
        return
    # Unsigned and wrapping on purpose: read as signed it is the distance.
    distance = (np.uint64(caller.vaddr) - second).view(np.int64)
    far = (distance < -a64.BL_REACH) | (distance >= a64.BL_REACH)
    for vaddr, bytes_away in zip(second[far].tolist(), distance[far].tolist(), strict=True):
        yield Hit(vaddr, f"ftrace_caller is {bytes_away:+#x} bytes away, a BL reaches 128 MiB")


RULE = Rule(
    code="PL306",
    slug="trampoline-out-of-reach",
    severity="error",
    inputs=("V",),
    what="A second slot more than 128 MiB away from `ftrace_caller`.",
    why="Core kernel sites have no PLT: ftrace cannot encode the BL, refuses the site and disables itself.",
    example="ftrace_caller is +0x9000000 bytes away",
    fix="make the kernel's text smaller, or keep the section nearer to .text",
    citation='kernel arch/arm64/kernel/ftrace.c "reachable_by_bl" (6.12); Arm ARM DDI 0487 "BL"',
    check=check,
)
