"""PL202: processing was begun and not finished."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.insn import a64
from prologue.rules.base import Hit, Rule, Subject
from prologue.sites.kernel import Kernel


def check(subject: Subject) -> Iterator[Hit]:
    """Sites of the minority, or one hit if every site is done and what comes after them is not."""
    binary, sites = subject.binary, subject.binary.sites
    if sites is None:
        return
    mov, nop = int(sites.has_mov.sum()), int(sites.has_nop.sum())
    kernel = binary if isinstance(binary, Kernel) else subject.vmlinux
    if mov and nop:
        minority = sites.has_mov if mov <= nop else sites.has_nop
        for k in np.flatnonzero(minority).tolist():
            found = (int(sites.word0[k]),)
            state = "holds the MOV, most sites do not" if mov <= nop else "holds no MOV, most sites do"
            yield Hit(int(sites.first[k]), f"unfinished: {state}", found, (a64.MOV_X9_X30,))
    elif kernel is binary and binary.state == "unfinished":
        if subject.kernel.contract == "stock":
            what = "ftrace_init_nop would still write prologues"
        else:
            what = "not all records are moved and the marker is not set"
        yield Hit(int(sites.first[0]), f"unfinished: all {mov} sites hold the MOV, but {what}")
    elif nop and kernel is not None and kernel.writes_no_prologues:
        where = kernel.init_stub.edits[0].vaddr if kernel is binary else int(sites.first[0])
        name = "ftrace_init_nop" if kernel is binary else f"ftrace_init_nop of {kernel.path}"
        yield Hit(where, f"{name} writes no prologues, but none of {nop} sites holds the MOV: LR would be lost")
    elif mov and kernel is not None and kernel is not binary and not kernel.marker and kernel.init_stub.state == "live":
        name = f"ftrace_init_nop of {kernel.path}"
        yield Hit(int(sites.first[0]), f"{name} demands NOPs, but all {mov} sites hold the MOV: ftrace would be dead")


RULE = Rule(
    code="PL202",
    slug="sites-partly-patched",
    severity="fatal",
    inputs=("V", "K"),
    what="Some sites hold the MOV and some do not; or all do, but records, marker or init were not brought along; or "
    "none do, but the kernel's own prologue writing is neutralised; or a module's do, but its kernel would write them.",
    why="Processing was interrupted, or a foreign tool wrote here. The kernel's boot-time patching demands a NOP "
    "everywhere, and a processed kernel demands a MOV everywhere: either way ftrace dies at boot.",
    example="20113 sites aa1e03e9 d503201f, 18464 sites d503201f d503201f",
    fix="run the same `prologue patch` command again: it finishes what was begun; process modules like their kernel",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_init_nop" (6.12)',
    check=check,
    words=(0xAA1E03E9, 0xD503201F),
)
