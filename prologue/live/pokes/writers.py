"""Writers of kernel text: functions of the kernel by name, and the mechanism of each.

Names are those of 5.5 to 7.3: arch/arm64/kernel/{ftrace,jump_label,alternative,patching,insn,kgdb}.c, pi/, probes/,
arch/arm64/kvm/va_layout.c, arch/arm64/net/bpf_jit_comp.c, arch/arm64/include/asm/runtime-const.h.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from prologue.live.pokes.recording import Function
from prologue.words import at_offset

_PAGE: Final = 12
_LONGEST: Final = 1 << 28  # bytes of a module's text; a function that claims more is compared with each address


class NamedPlace(NamedTuple):
    """An address by name: ``owner`` is a module or the like, empty for the kernel; ``name`` is empty if not known."""

    name: str
    owner: str
    offset: int

    def __str__(self) -> str:
        """Return the place as the kernel prints addresses: ``name+0x10 [module]``."""
        return at_offset(self.name, self.offset) + (f" [{self.owner}]" if self.owner else "")


class NameTable:
    """The functions of a recording, by address and time."""

    def __init__(self, functions: tuple[Function, ...]) -> None:
        self._always = sorted(f for f in functions if not f.owner)
        self._starts = [function.start for function in self._always]
        # Functions with an owner by page: memory of modules is used again, and a function is in its module's text.
        self._others: defaultdict[int, list[Function]] = defaultdict(list)
        self._long: list[Function] = []
        for function in sorted((f for f in functions if f.owner), key=lambda f: (f.since, f.start - f.end)):
            if function.end - function.start > _LONGEST:
                self._long.append(function)
                continue
            for page in range(function.start >> _PAGE, (function.end - 1 >> _PAGE) + 1):
                self._others[page].append(function)

    def place(self, vaddr: int, time: int) -> NamedPlace | None:
        """Return the function that was at an address at that time; None if it is not known."""
        for function in (*reversed(self._others.get(vaddr >> _PAGE, ())), *reversed(self._long)):
            if function.start <= vaddr < function.end and function.since <= time < function.until:
                return NamedPlace(function.name, function.owner, vaddr - function.start)
        k = bisect_right(self._starts, vaddr) - 1
        if k < 0 or vaddr >= self._always[k].end:
            return None
        return NamedPlace(self._always[k].name, "", vaddr - self._always[k].start)

    def text(self, vaddr: int, time: int) -> str:
        """Return the name for people, otherwise the address itself."""
        place = self.place(vaddr, time)
        return f"{vaddr:#x}" if place is None else str(place)


class TextWriter(NamedTuple):
    """The writer of a store: its mechanism, None if it is not known; ``function`` shows it, or is the one that stored.

    ``function`` is empty if the recorder saw neither the program counter nor a caller. ``why_unreachable`` is the
    reason why no CPU can execute a word that this function writes; empty if one may.
    """

    mechanism: str | None
    function: str
    why_unreachable: str = ""

    @property
    def before_use(self) -> bool:
        """True if the mechanism is made to write instructions that CPUs could reach, but do not execute before."""
        return self.mechanism == _CONSTANTS


# They store for others: their callers decide.
_PASSED: Final = frozenset((
    "aarch64_insn_write", "__aarch64_insn_write", "aarch64_insn_patch_text_nosync", "aarch64_insn_patch_text",
    "aarch64_insn_write_literal_u64", "aarch64_insn_write_literals_u64", "aarch64_insn_copy", "aarch64_insn_set",
    "__text_poke", "text_poke_memcpy", "text_poke_memset", "patch_alternative", "copy_to_kernel_nofault",
    "probe_kernel_write", "memcpy", "__memcpy", "memset", "__memset", "__memcpy_generic", "memcpy_generic",
    "memset_generic", "__memset_generic",
    "__arch_copy_to_user",  # by copy_to_kernel_nofault() before 5.11
))  # fmt: skip

_CONSTANTS: Final = "runtime constants"
# They store a runtime constant for the function that made the value.
_FIXUPS: Final = (
    "__runtime_fixup_ptr", "__runtime_fixup_shift", "__runtime_fixup_mask", "__runtime_fixup_16",
    "__runtime_fixup_caches", "runtime_const_fixup",
)  # fmt: skip

# They copy EL2's vectors (5.10).
_SPECTRE: Final = (
    "__copy_hyp_vect_bpi", "install_bp_hardening_cb", "kvm_setup_bhb_slot", "spectre_bhb_enable_mitigation",
    "spectre_v2_enable_mitigation",
)  # fmt: skip

_MECHANISMS: Final[dict[str, tuple[str, ...]]] = {
    "ftrace": (
        "ftrace_init_nop", "ftrace_make_call", "ftrace_make_nop", "ftrace_modify_call", "ftrace_update_ftrace_func",
        "ftrace_modify_code", "ftrace_modify_graph_caller", "ftrace_enable_ftrace_graph_caller",
        "ftrace_disable_ftrace_graph_caller", "ftrace_call_adjust", "ftrace_rec_set_ops", "ftrace_rec_update_ops",
        # With our patch: one loop at boot, and all literals before the first BL.
        "arch_ftrace_make_records", "ftrace_set_literals", "ftrace_add_literal", "ftrace_prepare_callsites",
        "arch_ftrace_update_code",
    ),
    "jump label": (
        "arch_jump_label_transform", "arch_jump_label_transform_queue", "arch_jump_label_transform_static",
    ),
    "kprobe": ("arch_arm_kprobe", "arch_disarm_kprobe", "arch_prepare_kprobe", "aarch64_insn_patch_text_cb"),
    "alternatives": (
        "__apply_alternatives", "apply_alternatives_all", "apply_alternatives_module", "apply_boot_alternatives",
        "__apply_alternatives_multi_stop",
    ),
    "relocation": ("relocate_kernel", "__relocate_kernel", "early_map_kernel", "__primary_switch"),
    # kernel/futex/core.c, 7.3: the compiler put the fixups into the function that calls them.
    _CONSTANTS: (*_FIXUPS, "futex_init"),
    "dynamic SCS": ("scs_patch", "scs_patch_vmlinux", "scs_handle_fde_frame"),
    "KVM": ("kvm_apply_hyp_relocations",),
    "BPF": ("bpf_arch_text_copy", "bpf_arch_text_poke", "bpf_arch_text_invalidate"),
    "static call": ("arch_static_call_transform",),
    "module loading": ("apply_relocate_add", "module_finalize", "move_module", "load_module"),
    "spectre vectors": _SPECTRE,
    # 5.10, arch/arm64/mm/proc.S: the flag is among the text, and the code that counts CPUs in it has labels that are
    # symbols, the boot CPU's last one "skip_pgd".
    "KPTI flag": ("idmap_kpti_install_ng_mappings", "__idmap_kpti_secondary", "skip_pgd"),
    "kgdb": ("kgdb_arch_set_breakpoint", "kgdb_arch_remove_breakpoint"),
}  # fmt: skip
_BY_FUNCTION: Final = {name: mechanism for mechanism, names in _MECHANISMS.items() for name in names}
# They call functions of others to make the words: callbacks of .altinstructions, anywhere in the kernel.
_WITH_CALLBACKS: Final = ("alternatives",)
# Functions that write words that nothing can execute then.
_UNREACHABLE: Final = {
    "bpf_arch_text_copy": "a BPF program or trampoline that is not reachable yet",
    "bpf_arch_text_invalidate": "a BPF program that is not reachable any more",
    "arch_prepare_kprobe": "the slot of a kprobe that is not armed yet",
    "kvm_apply_hyp_relocations": "text of EL2 that runs only after it",
    **dict.fromkeys(_SPECTRE, "a slot of EL2's vectors that no CPU has yet"),
}
# The code of an exception or interrupt belongs to another context than the interrupted code.
_EXCEPTION: Final = re.compile(r"el[01][th]?(_|\d)|vectors$|ret_to_(kernel|user)$|__entry_text|call_on_irq_stack$")
_CLONE: Final = re.compile(r"\.(isra|part|constprop|cold|llvm)\b.*$")


def writer_of(chain: Iterable[NamedPlace | None], *, constant: bool = False) -> TextWriter:
    """Find the writer of a store, from the places of its program counter and its callers, the innermost first.

    A mechanism is believed if nothing else is between it and the store: no code that is not known, no module, no
    exception. Functions of modules and others than the kernel are never a mechanism, whatever their names are. A
    ``constant`` is a word of a runtime constant: any function of the kernel may make its value, and is the writer.
    """
    stored, others, fixup = "", False, ""
    for place in chain:
        name = "" if place is None else _CLONE.sub("", place.name).removeprefix("__pi_")
        stored = stored or (str(place) if place else "code without a name")
        if place is None or place.owner or _EXCEPTION.match(name):
            break
        if constant and name in _FIXUPS:
            fixup = fixup or name
            continue
        mechanism = _BY_FUNCTION.get(name)
        if mechanism is not None and (not others or mechanism in _WITH_CALLBACKS):
            return TextWriter(mechanism, name, _UNREACHABLE.get(name, ""))
        if constant and name not in _PASSED:
            return TextWriter(_CONSTANTS, name)
        others = others or name not in _PASSED
    else:  # the callers of a fixup may not be known
        if fixup:
            return TextWriter(_CONSTANTS, fixup)
    return TextWriter(None, stored)
