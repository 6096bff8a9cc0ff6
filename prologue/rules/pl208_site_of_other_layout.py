"""PL208: an object of another layout than the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.errors import InputError
from prologue.kernel.kernel import Kernel
from prologue.kernel.sites import CALL_OPS_SYMBOL
from prologue.rules.base import Hit, Rule, Severity, Subject

_NOT_TRACED: Final[Severity] = "error"


def check(subject: Subject) -> Iterator[Hit]:
    """Report sites whose function does not begin where this layout has it begin.

    Raises:
        InputError: most of a vmlinux are of the other layout: the symbol that tells the two apart was stripped.

    """
    binary, sites, others = subject.binary, subject.sites, subject.binary.other_layouts
    if not len(others.places):
        return
    with_literal = (others.before == 2) & (others.after > 0)
    if isinstance(binary, Kernel) and sites.layout == "2" and 2 * int(with_literal.sum()) > len(sites):
        raise InputError(
            f"its records are of -fpatchable-function-entry=4,2, but there is no symbol {CALL_OPS_SYMBOL}, which such "
            "kernels have: stripped in part? This needs the unstripped vmlinux",
            path=binary.path,
        )
    # A body may begin with a NOP, too: the fewest are those of the layout.
    fewest = {count: int(others.after[others.before == count].min()) for count in np.unique(others.before).tolist()}
    literal = 2 if sites.layout == "4,2" else 0
    for k, entry, before in zip(others.places.tolist(), others.entry.tolist(), others.before.tolist(), strict=True):
        after = min(fewest[before], 2) if not before or before % 2 == 0 else fewest[before]
        theirs = f"{before + after},{before}" if before else str(after)
        name = binary.symbols.locate(entry).symbol
        message = f"compiled with -fpatchable-function-entry={theirs}, the rest with ={sites.layout}: "
        severity: Severity | None = None
        if entry == int(sites.second[k]):
            message += f"the second slot is the entry of {name}, which callers enter past the MOV"
        elif before < literal:
            message += f"ftrace would write a literal over the first instructions of {name}"
        else:
            message += f"the slots are before the entry of {name}, and tracing it does nothing"
            severity = _NOT_TRACED
        yield Hit(entry, message, severity=severity)


RULE = Rule(
    code="PL208",
    slug="site-of-other-layout",
    severity="fatal",
    inputs=("V", "K"),
    what="A function that was compiled with another `-fpatchable-function-entry` than the kernel computes its sites "
    "by: =2,1 or =2,2 in a kernel of =2, =2 in one of =4,2. Only an error if both slots are before the function.",
    why="The pair is then not at the function's entry. If the second slot is the entry, every caller from another "
    "object skips MOV X9, X30, and a BL there overwrites LR. In a CALL_OPS kernel ftrace writes a pointer over the "
    "first instructions of a function that has no NOPs before it.",
    example="exported_api is compiled with =2,1: its record, 4 bytes before it, is taken for the first slot",
    fix="compile that object with the flags of the kernel (CC_FLAGS_FTRACE in arch/arm64/Makefile)",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_call_adjust", arch/arm64/Makefile (6.12); GCC manual, '
    '"-fpatchable-function-entry"',
    check=check,
)
