"""PL301: a site in code that must never be traced."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.arrays import U64, among
from prologue.kernel.kernel import Kernel
from prologue.releases import UNTRACED, Untraced, is_compared, not_known
from prologue.rules.base import Hit, Rule, Subject

# Code that runs without the kernel's mapping, at EL2, before or during the switch of stacks (arch/arm64/kernel/
# vmlinux.lds.S and include/asm-generic/vmlinux.lds.h, 6.12): symbols that bound it, and sections of its own.
RANGES = (
    ("__hyp_text_start", "__hyp_text_end"),
    ("__idmap_text_start", "__idmap_text_end"),
    ("__hyp_idmap_text_start", "__hyp_idmap_text_end"),
    ("__entry_text_start", "__entry_text_end"),
    ("__entry_tramp_text_start", "__entry_tramp_text_end"),
    ("__noinstr_text_start", "__noinstr_text_end"),
    ("__hibernate_exit_text_start", "__hibernate_exit_text_end"),
    ("__relocate_new_kernel_start", "__relocate_new_kernel_end"),
    ("vdso_start", "vdso_end"),
)
SECTIONS = (".rodata.text", ".hyp.", ".idmap.text", ".entry.text", ".noinstr.text")
PREFIXES = ("__kvm_nvhe_", "__efistub_", "__pi_")

# What a trampoline calls before anything guards against recursion, and what runs while sites are rewritten. No release
# traces them: arch/arm64/kernel/Makefile builds ftrace.o and return_address.o, and kernel/trace/Makefile its own
# objects, without the NOPs (5.10-7.3).
TRACERS = (
    "arch_ftrace_ops_list_func",
    "ftrace_ops_list_func",
    "ftrace_ops_assist_func",
    "ftrace_graph_func",
    "prepare_ftrace_return",
    "function_graph_enter",
    "function_graph_enter_regs",
    "ftrace_return_to_handler",
    "function_trace_call",
    "function_stack_trace_call",
    "trace_graph_entry",
    "trace_graph_return",
    "ring_buffer_lock_reserve",
    "return_address",
    "ftrace_call_adjust",
    "ftrace_init_nop",
    "ftrace_make_call",
    "ftrace_make_nop",
    "ftrace_modify_call",
    "ftrace_update_ftrace_func",
)


def check(subject: Subject) -> Iterator[Hit]:
    """Report sites in ``RANGES``, ``UNTRACED`` and ``SECTIONS``, and in functions of ``PREFIXES`` and ``TRACERS``."""
    kernel, entry = subject.kernel, subject.sites.entry
    if not len(entry):
        return
    for low, high in RANGES:
        yield from (Hit(vaddr, f"site between {low} and {high}") for vaddr in _between(kernel, entry, low, high))
    for section in UNTRACED:
        if _is_left_out(kernel, entry, section):
            what = f"site between {section.low} and {section.high}, which this kernel's build leaves untraced"
            yield from (Hit(vaddr, what) for vaddr in _between(kernel, entry, section.low, section.high))
    for text in kernel.text.text_sections:
        if text.name.startswith(SECTIONS):
            inside = (entry >= np.uint64(text.addr)) & (entry < np.uint64(text.addr + text.size))
            yield from (Hit(vaddr, f"site in {text.name}") for vaddr in entry[inside].tolist())
    for prefix in PREFIXES:
        named = among(entry, kernel.symbols.values_with_prefix(prefix))
        for vaddr in entry[named].tolist():
            # A host function has an EL2 alias (arch/arm64/kernel/image-vars.h, KVM_NVHE_ALIAS, 6.12).
            names = kernel.symbols.names_at(vaddr)
            if f"__kvm_nvhe_{min(names, key=len)}" not in names:
                yield Hit(vaddr, f"site in a function named {prefix}...")
    unknown = not_known(kernel.release)
    for name in TRACERS:
        symbol = kernel.symbols.find(name)
        if symbol is not None and (entry == np.uint64(symbol.vaddr)).any():
            message = f"site in {name}, which ftrace itself runs"
            if unknown:  # it may guard against that in another way
                yield Hit(symbol.vaddr, f"{message}: whether it may be traced is {unknown}", severity="warn")
            else:
                yield Hit(symbol.vaddr, message)


def _between(kernel: Kernel, vaddrs: U64, low: str, high: str) -> list[int]:
    """Return which addresses are between two symbols; none if there are no such symbols."""
    start, stop = kernel.symbols.find(low), kernel.symbols.find(high)
    if start is None or stop is None:
        return []
    inside: list[int] = vaddrs[(vaddrs >= np.uint64(start.vaddr)) & (vaddrs < np.uint64(stop.vaddr))].tolist()
    return inside


def _is_left_out(kernel: Kernel, entry: U64, section: Untraced) -> bool:
    """Return whether the build leaves this section untraced: the release says so, or most functions in it.

    Stable releases have it earlier than their number says, and of one that was never compared the number says nothing.
    A build traces all of a section's functions or none, except if it traces nothing of an object.
    """
    if kernel.version is not None and is_compared(kernel.version) and kernel.version >= section.since:
        return True
    functions = set(_between(kernel, kernel.symbols.function_starts, section.low, section.high))
    names = kernel.symbols.names_at
    speaking = [v for v in functions if not (section.never and any(n.startswith(section.never) for n in names(v)))]
    return 2 * len(_between(kernel, entry, section.low, section.high)) < len(speaking)


RULE = Rule(
    code="PL301",
    slug="site-in-untraceable-code",
    severity="error",
    inputs=("V",),
    what="A patch site in EL2, identity-mapped, entry, noinstr, EFI stub or position-independent early code; in a "
    "function that ftrace itself runs for every call or while it rewrites sites; in the idle loop from 6.12 on, and in "
    "`.kprobes.text` from 7.2 on, or where the same kernel leaves the other functions of that section untraced. Only "
    "warn: a function of ftrace's own in a release that prologue does not know.",
    why="Such code runs where the trampoline is not mapped, or before the state that it needs exists. A BL there goes "
    "to an unmapped address, often with no way to report it. A traced function of ftrace's own enters ftrace again. In "
    "the idle loop RCU does not watch.",
    example="__kvm_nvhe_handle_trap has a patch site",
    fix="build that object without -fpatchable-function-entry (CFLAGS_REMOVE_..., notrace, noinstr)",
    citation="kernel arch/arm64/kernel/vmlinux.lds.S, arch/arm64/kernel/Makefile, arch/arm64/kvm/hyp/nvhe/Makefile, "
    "include/linux/compiler_types.h, include/linux/trace_recursion.h (6.12), include/asm-generic/kprobes.h (7.2)",
    check=check,
    words=(0xD503201F, 0xD503201F),
)
