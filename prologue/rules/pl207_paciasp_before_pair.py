"""PL207: LR is signed or pushed before the pair saves it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.insn import a64
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Check the word right before the pair."""
    sites = subject.sites
    before = sites.before
    signs = (before == a64.PACIASP) | (before == a64.SCS_PUSH)
    if signs.any():  # the word belongs to this function only if no function begins after it
        signs &= ~subject.binary.symbols.is_function_start(sites.first)
    for k in np.flatnonzero(signs).tolist():
        name = "PACIASP" if int(before[k]) == a64.PACIASP else "a shadow call stack push"
        yield Hit(int(sites.first[k]) - 4, f"{name} comes before the pair", (int(before[k]), int(sites.word0[k])))


RULE = Rule(
    code="PL207",
    slug="paciasp-before-pair",
    severity="error",
    inputs=("V", "K"),
    finds_insns=True,
    what="PACIASP, or a shadow call stack push, right before the pair.",
    why="The trampoline takes X9 for the caller's return address. After PACIASP it is a signed pointer, and a return "
    "through it faults; after a push the shadow stack and what the tracer sees disagree.",
    example="d503233f paciasp; d503201f nop; d503201f nop",
    fix="use a compiler that puts the patchable entry before the prologue (GCC 8.1, Clang 10 and later)",
    citation='kernel arch/arm64/kernel/entry-ftrace.S "ftrace_caller"; Arm ARM DDI 0487 "PACIASP"',
    check=check,
    words=(0xD503233F, 0xD503201F, 0xD503201F),
)
