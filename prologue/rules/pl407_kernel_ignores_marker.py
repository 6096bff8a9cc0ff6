"""PL407: a marker, but no code recognised that reads it and takes the records as they are."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.rules.base import Hit, Rule, Subject
from prologue.sites.init_path import reaches_init_nop


def check(subject: Subject) -> Iterator[Hit]:
    """A vmlinux with the marker whose boot, followed in the binary, does not keep the native contract.

    A bench variant whose boot is cut short, and that has no prologues, is PL408's.
    """
    kernel, sites = subject.kernel, subject.kernel.sites
    problem = kernel.native_problem if sites is not None else None
    if sites is None or problem is None:
        return
    if not sites.has_mov.any() and reaches_init_nop(kernel.text, kernel.symbols) is False:
        return
    place = f" (at {problem.place:#x})" if problem.words else ""
    yield Hit(problem.start, f"the native contract is not recognised: {problem.reason}{place}", problem.words)


RULE = Rule(
    code="PL407",
    slug="kernel-ignores-marker",
    severity="fatal",
    inputs=("V",),
    finds_insns=True,
    what="A vmlinux that has `__ftrace_prologue_marker` and whose code, followed from `ftrace_init` on, is not "
    "recognised to obey it. With the marker set, `ftrace_process_locs` must take the records as they are, and "
    "`ftrace_init_nop` must write nothing but the literal of a CALL_OPS site. With the marker clear, records must be "
    "adjusted and prologues written.",
    why="The marker is a symbol, and its presence proves nothing. A kernel that does not read it adds its own "
    "adjustment to moved records, or demands a NOP where the MOV is, and ftrace disables itself; one with CALL_OPS "
    "panics. A kernel that writes no prologue although the marker is clear loses LR at the first traced call.",
    example="ftrace_init_nop calls aarch64_insn_patch_text_nosync, whatever the marker says",
    fix="apply the patch of `prologue kernel install` and set CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE; if both are "
    "done, report the disassembly to the maintainers of prologue",
    citation='docs/kernel-contract.md, "native"; kernel kernel/trace/ftrace.c "ftrace_init", "ftrace_process_locs", '
    'arch/arm64/kernel/ftrace.c "ftrace_call_adjust", "ftrace_init_nop" (6.1-7.2)',
    check=check,
    words=(0xAA1E03E9, 0xD503201F),
)
