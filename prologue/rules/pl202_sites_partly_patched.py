"""PL202: sites, records and kernel do not agree on whether the file is processed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

import numpy as np

from prologue.insn import a64
from prologue.kernel.init_stub import FUNCTION
from prologue.kernel.kernel import Kernel
from prologue.kernel.state import Share
from prologue.rules.base import Hit, Rule, Severity, Subject

Role = Literal["native", "silent", "writing", "unknown"]

_NOT_MOVED: Final = (
    "unfinished: all {count} sites hold the MOV, but not all records are moved and the marker is not set"
)
_WRITING: Final = "unfinished: a run that writes in place was interrupted"
_FROM_JOURNAL: Final = (
    "run the same `prologue patch` command again, by the same name of the file: it finishes from the journal there; "
    "if the journal is gone, link again"
)
_STILL_WRITES: Final = "unfinished: all {count} sites hold the MOV, but {init} would still write prologues"
_LOSES_LR: Final = "{init} writes no prologues, but none of {count} sites holds the MOV: LR would be lost"
_DEAD: Final = "{init} demands NOPs, but all {count} sites hold the MOV: ftrace would disable itself"
_DOUBTFUL: Final = "all {count} sites hold the MOV, and it is not known whether {init} accepts that"
# Whose sites, how many of them hold the MOV, and what the kernel does about prologues. Combinations that are not here
# are sound, or another rule reports them.
_WRONG: Final[dict[tuple[Literal["kernel", "module"], Share, Role], str]] = {
    ("kernel", "all", "native"): _NOT_MOVED,
    ("kernel", "all", "writing"): _STILL_WRITES,
    ("kernel", "all", "unknown"): _STILL_WRITES,
    ("kernel", "all", "silent"): _STILL_WRITES,
    ("kernel", "none", "silent"): _LOSES_LR,
    ("module", "none", "silent"): _LOSES_LR,
    ("module", "all", "writing"): _DEAD,
    ("module", "all", "unknown"): _DOUBTFUL,
}


def check(subject: Subject) -> Iterator[Hit]:
    """Report the less frequent kind of site; or one hit if all are alike and their kernel expects the other kind."""
    binary, sites = subject.binary, subject.sites
    if isinstance(binary, Kernel) and binary.marker is not None and binary.marker.writing:
        yield Hit(binary.marker.vaddr, _WRITING, fix=_FROM_JOURNAL)
    mov, nop = int(sites.has_mov.sum()), int(sites.has_nop.sum())
    if mov and nop:
        few, state = (sites.has_mov, "holds the MOV, most sites do not") if mov <= nop else (
            sites.has_nop, "holds no MOV, most sites do")  # fmt: skip
        message = f"unfinished: {state}" if binary.state == "unfinished" else state
        for k in np.flatnonzero(few).tolist():
            yield Hit(int(sites.first[k]), message, (int(sites.word0[k]),), (a64.MOV_X9_X30,))
        return
    kernel = binary if isinstance(binary, Kernel) else subject.vmlinux
    if kernel is None or not (mov or nop) or (kernel is binary and mov and binary.state != "unfinished"):
        return
    wrong = _WRONG.get(("kernel" if kernel is binary else "module", "all" if mov else "none", _role(kernel)))
    if wrong is not None:
        init = FUNCTION if kernel is binary else f"{FUNCTION} of {kernel.path}"
        where = kernel.init_stub.edits[0].vaddr if kernel is binary and nop else int(sites.first[0])
        severity: Severity | None = "warn" if wrong == _DOUBTFUL else None
        yield Hit(where, wrong.format(count=mov or nop, init=init), severity=severity)


def _role(kernel: Kernel) -> Role:
    """Say what this kernel does about prologues: its own at boot, and those of modules that it loads."""
    if kernel.marker is not None:
        return "native"
    if kernel.writes_no_prologues:
        return "silent"
    return "writing" if kernel.init_stub.state == "live" else "unknown"


RULE = Rule(
    code="PL202",
    slug="sites-partly-patched",
    severity="fatal",
    inputs=("V", "K"),
    finds_insns=True,
    open_while_unfinished=True,
    what="Some sites hold the MOV and some do not; or all do, but records, marker or init are not processed; or "
    "none do, but the kernel's own prologue writing is neutralised; or a module's do, but its kernel would write them. "
    "Only warn: a module's do, and what its kernel does with them is not known.",
    why="Processing was interrupted, or another tool wrote here. An unmodified kernel demands a NOP at every site "
    "when it initialises ftrace, and a processed one demands a MOV when a function is traced: either way ftrace "
    "disables itself.",
    example="20113 sites aa1e03e9 d503201f, 18464 sites d503201f d503201f",
    fix="find what changed the file, link again, and process the result",
    fix_of_module="build the module again, and process it like its kernel",
    citation='kernel arch/arm64/kernel/ftrace.c "ftrace_init_nop" (6.12)',
    check=check,
    words=(0xAA1E03E9, 0xD503201F),
)
