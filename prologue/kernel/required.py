"""Symbols that every kernel has: if one is gone, the file was stripped, and what rules would say is worth nothing.

Linker scripts define most of them whether or not there is anything between them (include/asm-generic/vmlinux.lds.h and
arch/arm64/kernel/vmlinux.lds.S, 5.5-7.3). Programs that are no Linux kernel need none of them.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from prologue.arrays import among
from prologue.elf.image import ElfImage
from prologue.errors import InputError
from prologue.kernel.kallsyms import Kallsyms
from prologue.kernel.kernel import Kernel
from prologue.kernel.module import layout_of
from prologue.kernel.sites import CALL_OPS_SYMBOL
from prologue.words import counted

_ALWAYS: Final = ("linux_banner", "_text", "_stext", "_etext", "_end", "__init_begin", "__init_end")
_LATEST: Final = (7, 3)  # what later releases have was not read
_UP_TO_LATEST: Final = (
    "_sinittext", "_einittext", "__initcall_start", "__initcall_end", "__con_initcall_start", "__con_initcall_end",
    "__start___ex_table", "__stop___ex_table", "__start___jump_table", "__stop___jump_table",
    "__entry_text_start", "__entry_text_end", "__idmap_text_start", "__idmap_text_end",
    "__kprobes_text_start", "__kprobes_text_end", "__cpuidle_text_start", "__cpuidle_text_end",
)  # fmt: skip
# Where one symbol of a row is there, the others must be: options define them together.
_TOGETHER: Final = (
    ("ftrace_init", "ftrace_caller", "ftrace_make_call", "__start_mcount_loc", "__stop_mcount_loc"),
    ("__irqentry_text_start", "__irqentry_text_end"),
    ("__hyp_text_start", "__hyp_text_end", "__hyp_idmap_text_start", "__hyp_idmap_text_end"),
    ("__entry_tramp_text_start", "__entry_tramp_text_end"),
    ("__hibernate_exit_text_start", "__hibernate_exit_text_end", "swsusp_arch_suspend_exit"),
    ("__relocate_new_kernel_start", "__relocate_new_kernel_end"),
    ("__start___bug_table", "__stop___bug_table"),
    ("__start___ksymtab", "__stop___ksymtab"),
    ("__start___ksymtab_gpl", "__stop___ksymtab_gpl"),
    ("__start___tracepoints_ptrs", "__stop___tracepoints_ptrs"),
    ("__start_static_call_sites", "__stop_static_call_sites"),
    ("__start_kprobe_blacklist", "__stop_kprobe_blacklist", "register_kprobe"),
    ("system_certificate_list", "system_certificate_list_size"),
    ("vdso_start", "vdso_end"),
    ("kallsyms_num_syms", "kallsyms_offsets", "kallsyms_names", "kallsyms_token_table", "kallsyms_token_index"),
)  # fmt: skip
_OF_RELOCATIONS: Final = (
    ("__pi_relocate_kernel", "__pi_rela_start", "__pi_rela_end"),
    ("__pi_relr_start", "__pi_relr_end"),
    ("__rela_start", "__rela_end"),
    ("__relr_start", "__relr_end"),
)
_BANNER: Final = re.compile(rb"Linux version \d+\.\d+")
_BYTES: Final = 4096  # a kernel has a function for so much text at least
_SMALLEST: Final = 1 << 18  # bytes of text of a Linux kernel; what is smaller is a program for tests


def require_symbols(kernel: Kernel) -> None:
    """Check that a Linux kernel has the symbols that it was linked with, and any kernel the one of its layout.

    Raises:
        InputError: some are gone.

    """
    image, symbols, records = kernel.image, kernel.symbols, kernel.records
    # A section that objcopy removes takes symbols along; that the relocations are lost is what PL102 has to say.
    if not kernel.lost_relocations and (lost := _lost_of_kallsyms(kernel)):
        raise _missing(kernel, f"the symbol {_first_of(lost)}")
    if symbols.find(CALL_OPS_SYMBOL) is None and records is not None and layout_of(image, symbols, records) == "4,2":
        raise _missing(kernel, f"the symbol {CALL_OPS_SYMBOL} of its -fpatchable-function-entry=4,2")
    wanted: tuple[str, ...] = _ALWAYS
    if kernel.version is None or kernel.version <= _LATEST:
        wanted += _UP_TO_LATEST
        if kernel.version is not None and kernel.version >= (5, 8):
            wanted += ("__noinstr_text_start", "__noinstr_text_end")
        # The word that kernels without CALL_OPS patch in their trampoline (arch/arm64/kernel/entry-ftrace.S, 5.10-7.3).
        if symbols.find("ftrace_caller") is not None and symbols.find(CALL_OPS_SYMBOL) is None:
            wanted += ("ftrace_call",)
    gone = [name for name in wanted if symbols.find(name) is None]
    for row in _TOGETHER if kernel.lost_relocations else (*_TOGETHER, *_OF_RELOCATIONS):
        missing = [name for name in row if symbols.find(name) is None]
        gone += missing if len(missing) < len(row) else []
    text = sum(section.size for section in image.text_sections)
    if gone and _is_linux(image, text):
        raise _missing(kernel, f"the symbol {_first_of(gone)}, which a kernel like this one has,")
    functions = len(symbols.function_starts)
    if kernel.unnamed_functions and _is_linux(image, text):
        raise _missing(kernel, f"the symbol of {counted(kernel.unnamed_functions, 'traced function')}")
    if functions * _BYTES < text and _is_linux(image, text):
        raise _missing(kernel, f"what names functions ({functions:,} symbols in {text:,} bytes of text)")


def _lost_of_kallsyms(kernel: Kernel) -> list[str]:
    """Return names that the kernel's own table (kallsyms) has for addresses at which the file has no symbol.

    Each address of that table is the value of a symbol of the vmlinux that it was made from. Nothing if the table
    cannot be read: the kernel was built without it, or it is of a form that is not known.
    """
    try:
        kallsyms = Kallsyms(kernel)
        rows = np.flatnonzero(~among(kallsyms.addresses, kernel.symbols.named_values))
        names = kallsyms.names if len(rows) else ()
    except InputError:
        return []
    start = kernel.symbols.find("_stext")
    # Without kallsyms_relative_base the addresses are of another form.
    if not names or start is None or start.vaddr not in kallsyms.by_name.get("_stext", ()):
        return []
    return [names[row] for row in rows.tolist()]


def _first_of(names: list[str]) -> str:
    return names[0] + (f" (and {len(names) - 1:,} more)" if len(names) > 1 else "")


def _missing(kernel: Kernel, lost: str) -> InputError:
    return InputError(f"stripped in part: {lost} is gone: give the vmlinux as it was linked", path=kernel.path)


def _is_linux(image: ElfImage, text: int) -> bool:
    """Return whether a kernel's banner is in the file, with or without its symbol."""
    if text < _SMALLEST:
        return False
    sections = (s for s in image.sections if s.allocated and s.has_bytes and not s.executable)
    return any(_BANNER.search(image.content, s.offset, s.offset + s.size) for s in sections)
