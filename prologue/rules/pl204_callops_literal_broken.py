"""PL204: the literal before a CALL_OPS function is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.insn import a64
from prologue.rules.base import Hit, Rule, Subject

_UNALIGNED: Final = "the literal before the function, or the record that points at it, is not 8-aligned"


def check(subject: Subject) -> Iterator[Hit]:
    """Check the 8 bytes before the function: aligned, and NOP; NOP in the file."""
    binary, sites = subject.binary, subject.sites
    if sites.layout != "4,2":
        return
    literal = sites.entry - np.uint64(8)
    low, high = binary.text.words_around(literal, (0, 1)).values()
    records = binary.records
    value = literal if records is None else np.where(sites.moved, literal, records.values[sites.record])
    unaligned = (literal | value) & np.uint64(7) != 0
    broken = unaligned | (low != a64.NOP) | (high != a64.NOP)
    if broken.any():
        broken[binary.other_layouts.places] = False
    for k in np.flatnonzero(broken).tolist():
        if unaligned[k]:
            yield Hit(int(literal[k]), _UNALIGNED)
            continue
        words = (int(low[k]), int(high[k]))
        message = f"expected {a64.NOP:08x} {a64.NOP:08x} before the function, found {words[0]:08x} {words[1]:08x}"
        yield Hit(int(literal[k]), message, words, (a64.NOP, a64.NOP))


RULE = Rule(
    code="PL204",
    slug="callops-literal-broken",
    severity="fatal",
    inputs=("V", "K"),
    finds_insns=True,
    what="In a CALL_OPS kernel: a function whose literal is not 8-aligned, or is not the two NOPs of the compiler.",
    why="The 8 bytes become a pointer to ftrace_ops, which the trampoline loads with one access and follows. "
    "Unaligned, it can be read half-written, and the kernel refuses the site. Changed bytes mean that another tool "
    "writes there, too.",
    example="d503201f 00000000 before kernel_init",
    fix="build with -fmin-function-alignment=8, or with -falign-functions=8, which GCC does not apply to cold "
    "functions and under -Os; and with no other feature that writes before functions (kCFI excludes CALL_OPS)",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_call_adjust", "ftrace_rec_set_ops" (6.12)',
    check=check,
    words=(0xD503201F, 0x00000000),
)
