"""PL407: a marker that no code of the kernel's boot reads."""

from __future__ import annotations

from collections.abc import Iterator

from prologue.kernel.init_path import reaches_init_nop
from prologue.rules.base import Hit, Rule, Subject


def check(subject: Subject) -> Iterator[Hit]:
    """Report a vmlinux with the marker whose boot is not known to read it.

    A bench variant whose boot is cut short, and that has no prologues, is PL408's.
    """
    kernel, problem = subject.kernel, subject.kernel.native_problem
    if problem is None:
        return
    if not subject.sites.has_mov.any() and reaches_init_nop(kernel.text, kernel.symbols) is False:
        return
    yield Hit(problem.place, f"the kernel does not read its marker: {problem.reason}")


RULE = Rule(
    code="PL407",
    slug="kernel-ignores-marker",
    severity="fatal",
    inputs=("V",),
    what="A vmlinux that has `__ftrace_prologue_marker`, and whose boot does not read it. The marker must be in "
    "`.init.data` and share its bytes with no other object, and a function that `ftrace_init` reaches by direct calls "
    "must form an address in it and load its flags.",
    why="The marker is a symbol, and its presence proves nothing: objcopy can add it to any kernel. A kernel that does "
    "not read it adds its own adjustment to moved records, or demands a NOP where the MOV is, and ftrace disables "
    "itself; one with CALL_OPS panics.",
    example="a stock kernel to which objcopy added the symbol: no function that ftrace_init reaches loads its flags",
    fix="apply the patch of `prologue kernel install` and set CONFIG_ARM64_FTRACE_BUILDTIME_PROLOGUE; if both are "
    "done, report the kernel's configuration and compiler to the maintainers of prologue",
    citation='prologue help kernel-contract "native"; kernel arch/arm64/kernel/ftrace.c "ftrace_dyn_arch_init" '
    '(6.1-7.3); Arm ELF ABI, "Relocation types", R_AARCH64_ADR_PREL_PG_HI21',
    check=check,
    words=(0x90000000, 0xB9400C00),
)
