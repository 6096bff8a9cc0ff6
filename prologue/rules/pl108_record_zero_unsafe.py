"""PL108: a zero record in a kernel that would not skip it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.kernel.kernel import Kernel
from prologue.kernel.module import Module
from prologue.rules.base import Hit, Rule, Severity, Subject

_NOT_DECIDED: Final[Severity] = "info"


def check(subject: Subject) -> Iterator[Hit]:
    """Report zero records, if the kernel, or that of a module, adjusts a record before it tests it for NULL."""
    binary, records = subject.binary, subject.binary.records
    if records is None or records.nonzero.all() or records.form != "addresses":
        return  # a processed kernel takes as many as its marker counts
    if isinstance(binary, Kernel) and binary.lost_relocations:  # PL102: zeros are all that is left
        return
    adjusts = _adjusts(subject)
    if adjusts is False or (adjusts is None and isinstance(binary, Kernel)):
        return
    kernel, advice, severity = "this kernel", "", None
    if subject.vmlinux is not None:
        kernel = str(subject.vmlinux.path)
    elif isinstance(binary, Module):
        kernel = f"kernel {binary.release}" if binary.release else "the kernel, which the module does not name,"
        advice = ": give the kernel with --vmlinux"
    message = f"zero record: {kernel} adjusts it to a small address and then patches there"
    if adjusts is None:
        message, severity = f"zero record: not known whether {kernel} skips it{advice}", _NOT_DECIDED
    vaddrs = records.vaddrs
    for k in np.flatnonzero(~records.nonzero).tolist():
        yield Hit(int(vaddrs[k]), message, (0,), severity=severity)


def _adjusts(subject: Subject) -> bool | None:
    """Return whether the kernel that uses these records adjusts zeros; None if that is not known."""
    binary = subject.binary
    kernel = binary if isinstance(binary, Kernel) else subject.vmlinux
    if kernel is not None:
        return kernel.adjusts_zero_records
    return binary.adjusts_zero_records if isinstance(binary, Module) else None


RULE = Rule(
    code="PL108",
    slug="record-zero-unsafe",
    severity="fatal",
    inputs=("V", "K"),
    what="A zero record (padding, or that of a discarded function) in a kernel whose `ftrace_process_locs` calls "
    "`ftrace_call_adjust` before its NULL test; or in a module that such a kernel loads. Only info in a module of a "
    "release of which that is not known.",
    why="The adjusted zero is 4, not NULL. ftrace then fails to read address 4, reports `ftrace bug` and disables "
    "itself for that boot: at boot, or when the module is loaded.",
    example="record 0 of 38577: 0000000000000000",
    fix="do not zero records on this release, and keep padding out of a module's table; 6.15 and 6.12.95 test before "
    "they adjust",
    citation='kernel kernel/trace/ftrace.c "ftrace_process_locs" (6.1: adjusts first; 6.12.107: tests first)',
    check=check,
)
