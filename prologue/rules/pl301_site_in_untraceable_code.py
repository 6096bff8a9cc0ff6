"""PL301: a site in code that must never be traced."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from prologue.arrays import among
from prologue.rules.base import Hit, Rule, Subject
from prologue.sites.kernel import Kernel

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


def check(subject: Subject) -> Iterator[Hit]:
    """Sites between those symbols, in those sections, or in functions of those names."""
    kernel, sites = subject.kernel, subject.kernel.sites
    if sites is None:
        return
    entry = sites.entry
    for low, high in RANGES:
        start, stop = kernel.symbols.find(low), kernel.symbols.find(high)
        if start is not None and stop is not None:
            inside = (entry >= np.uint64(start.vaddr)) & (entry < np.uint64(stop.vaddr))
            yield from (Hit(vaddr, f"site between {low} and {high}") for vaddr in entry[inside].tolist())
    for section in kernel.text.text_sections:
        if section.name.startswith(SECTIONS):
            inside = (entry >= np.uint64(section.addr)) & (entry < np.uint64(section.addr + section.size))
            yield from (Hit(vaddr, f"site in {section.name}") for vaddr in entry[inside].tolist())
    for prefix in PREFIXES:
        named = among(entry, kernel.symbols.values_with_prefix(prefix))
        for vaddr in entry[named].tolist():
            if not _is_host_alias(kernel, vaddr):
                yield Hit(vaddr, f"site in a function named {prefix}...")


def _is_host_alias(kernel: Kernel, vaddr: int) -> bool:
    """A host function that EL2 code knows by another name (arch/arm64/kernel/image-vars.h, KVM_NVHE_ALIAS, 6.12)."""
    names = kernel.symbols.names_at(vaddr)
    return f"__kvm_nvhe_{min(names, key=len)}" in names


RULE = Rule(
    code="PL301",
    slug="site-in-untraceable-code",
    severity="error",
    inputs=("V",),
    what="A patch site in EL2, identity-mapped, entry, noinstr, EFI stub or position-independent early code.",
    why="Such code runs where the trampoline is not mapped, or before the state that it needs exists. A BL there goes "
    "to an unmapped address, often with no way to report it.",
    example="__kvm_nvhe_handle_trap has a patch site",
    fix="build that object without -fpatchable-function-entry (CFLAGS_REMOVE_..., notrace, noinstr)",
    citation="kernel arch/arm64/kernel/vmlinux.lds.S, arch/arm64/kvm/hyp/nvhe/Makefile (6.12)",
    check=check,
    words=(0xD503201F, 0xD503201F),
)
