"""PL109: a record's function has no symbol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import among
from prologue.insn import a64
from prologue.kernel.kernel import Kernel
from prologue.rules.base import Hit, Rule, Severity, Subject

# Where the build does not zero such records, they are an ordinary thing; scripts/sorttable sees no modules.
_HARMLESS: Final[Severity] = "info"


def check(subject: Subject) -> Iterator[Hit]:
    """Report sites whose function entry is not the value of any function symbol."""
    binary, sites = subject.binary, subject.sites
    if binary.unnamed_functions:
        return
    entry = sites.entry
    # A function whose PACIASP comes before the pair begins one word earlier: PL207 reports it.
    before = binary.text.words(entry - np.uint64(4))
    signed = (before == a64.PACIASP) | (before == a64.SCS_PUSH)
    begins = np.where(signed & ~binary.symbols.is_function_start(entry), entry - np.uint64(4), entry)
    severity = None if isinstance(binary, Kernel) and binary.sorts_at_build else _HARMLESS
    unnamed = ~binary.symbols.is_function_start(begins)
    unnamed[binary.other_layouts.places] = False
    lost = np.flatnonzero(unnamed)
    if len(lost):  # a symbol that lost its type is a name, and the leftover of a weak function has none
        lost = lost[~among(begins[lost], binary.symbols.named_values)]
    for k in lost.tolist():
        note = "no function symbol begins here: the leftover of an overridden weak function, or its symbol was stripped"
        yield Hit(int(entry[k]), note, severity=severity)


RULE = Rule(
    code="PL109",
    slug="record-not-at-function",
    severity="warn",
    inputs=("V", "K"),
    what="A site whose function has no symbol. Only info in modules, and in a vmlinux whose build does not sort its "
    "records (before 6.15).",
    why="When a weak function is overridden the linker keeps its text and its record but drops its symbol. ftrace "
    "lists it under its neighbour's name. Builds of 6.15 and later zero such records: one that is left is unexpected.",
    example="arch_report_meminfo+0x18 has a patch site, but no symbol",
    fix_of_module="nothing to do: in modules, functions that override weak ones leave such sites",
    fix="nothing to do on kernels before 6.15; on later ones find out what stripped the symbol",
    citation='kernel scripts/sorttable.c "is_invalid_func" (6.15), kernel/trace/ftrace.c "ftrace_process_locs" (6.1)',
    check=check,
)
