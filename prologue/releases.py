"""Known facts of each kernel release: the one place that says so.

A release is compared if its sources were read and a machine that ran it was audited without a finding. Of any other
one, rules and audits use what they find in its own files and memory. What then does not fit is not decided, never an
error: it may be what that release does.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

Version = tuple[int, int]

COMPARED: Final[tuple[Version, ...]] = ((5, 10), (6, 1), (6, 12), (7, 2), (7, 3))
"""Debian's, with their sources: linux-source-5.10 to 7.3."""
PROBES_COMPARED: Final[tuple[Version, ...]] = ((6, 1), (6, 12), (7, 2), (7, 3))
"""Those whose kernels were asked where they take kprobes (docs/evidence/probe.md)."""

OLDEST: Final[Version] = (5, 5)  # before it, ftrace of arm64 has no two slots
DECODES_MOPS: Final[Version] = (6, 12)  # arch/arm64/kernel/probes/decode-insn.c: CPY and SET; not in 6.1
TELLS_EXCLUSIVES: Final[Version] = (7, 2)  # ... tells LDXR from LDAR by bit 23
TESTS_ZERO_RECORDS_FIRST: Final[Version] = (6, 15)  # "ftrace_process_locs"; stable 6.12 has it, too
SORTS_RECORDS_AT_BUILD: Final[Version] = (6, 15)  # arch/arm64/Kconfig, BUILDTIME_MCOUNT_SORT; stable 6.12 has it, too
# arch/arm64/kernel/module.c, "module_init_ftrace_plt": commit a7ed7b9d0ebb, and the first stable versions that have it
NEEDS_INIT_TRAMPOLINE: Final[Version] = (6, 17)
NEEDS_INIT_TRAMPOLINE_STABLE: Final = {(6, 6): 105, (6, 12): 46, (6, 16): 6}


class Untraced(NamedTuple):
    """A section of which some releases trace all functions and others none: symbols that bound it, and since when.

    ``never`` are beginnings of names whose object no release before that traces, whatever the section is.
    """

    low: str
    high: str
    since: Version
    never: tuple[str, ...] = ()


UNTRACED: Final = (
    # __cpuidle is noinstr (include/linux/compiler_types.h, 6.12): RCU does not watch there, and ftrace may warn
    # (trace_warn_on_no_rcu, include/linux/trace_recursion.h, 6.12).
    Untraced("__cpuidle_text_start", "__cpuidle_text_end", (6, 12)),
    # __kprobes is notrace in 7.2.13 and in some stable releases, such as 6.12.107 (include/asm-generic/kprobes.h). 5.10
    # builds arch/arm64/kernel/insn.o without the NOPs (arch/arm64/kernel/Makefile), more than half of its section.
    Untraced(
        "__kprobes_text_start", "__kprobes_text_end", (7, 2),
        ("aarch64_insn_", "__aarch64_insn_", "aarch64_get_insn_class", "__check_"),
    ),
)  # fmt: skip


def version_of(release: str) -> Version | None:
    """Return major and minor of a kernel release; None if it does not say."""
    match = re.match(r"(\d+)\.(\d+)", release)
    return (int(match[1]), int(match[2])) if match else None


def is_compared(version: Version | None) -> bool:
    """Return whether the behaviour of this release is known."""
    return version in COMPARED


def not_known(release: str) -> str:
    """Return the reason why nothing that does not fit may be called wrong; empty for a release that was compared."""
    version = version_of(release)
    if is_compared(version):
        return ""
    return f"not known for {version[0]}.{version[1]}" if version else "not known: the kernel does not name its release"
