"""The kernel's other tables that name instructions: their owners write, or expect, something there.

Layouts are those of kernel 6.1-6.12 (and of 5.5 on, where said). Each reader returns addresses; fields that refer to
nothing in this file are 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool, sorted_unique
from prologue.insn.table import pattern
from prologue.kernel.binary import Binary, Pointers

_CALLBACK: Final = 0x8000  # ARM64_CB_BIT of alt_instr.cpucap: the replacement is a function (6.1 and later)
PATCHES_NOPS: Final = "alt_cb_patch_nops"  # the callback whose result is known (arch/arm64/kernel/alternative.c)


class JumpLabels(NamedTuple):
    """``__jump_table``: instructions that flip between NOP and B while everybody runs; arrays of shape (n,)."""

    entries: U64
    code: U64
    target: U64


class Ranges(NamedTuple):
    """Runs of instructions: start addresses and lengths in bytes, arrays of shape (n,)."""

    start: U64
    size: I64

    def words(self) -> U64:
        """Return the address of every instruction in the runs, ascending, each once."""
        count = self.size // 4
        first = np.repeat(self.start, count)
        step = np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
        return sorted_unique(first + step.astype(np.uint64) * np.uint64(4))


def _table(binary: Binary, start_name: str, stop_name: str, section: str, entry: int) -> U64:
    """Return the addresses of the entries of a table that two symbols bound, or that is a section; shape (n,)."""
    start, stop = (binary.symbols.find(name) for name in (start_name, stop_name))
    if start is not None and stop is not None:
        low, high = start.vaddr, stop.vaddr
    else:
        table = binary.image.section(section)
        if table is None or not table.has_bytes:
            return np.zeros(0, np.uint64)
        low, high = table.addr, table.addr + table.size
    if high < low or binary.text.read_at(low, high - low) is None:
        return np.zeros(0, np.uint64)
    return np.uint64(low) + np.arange((high - low) // entry, dtype=np.uint64) * np.uint64(entry)


def jump_labels(binary: Binary) -> JumpLabels:
    """Read 16-byte entries: s32 code, s32 target, s64 key, relative to themselves (linux/jump_label.h, 5.5-6.12)."""
    entries = _table(binary, "__start___jump_table", "__stop___jump_table", "__jump_table", 16)
    return JumpLabels(entries, binary.relative32(entries), binary.relative32(entries + np.uint64(4)))


def jump_label_keys(binary: Binary, entries: U64) -> tuple[U64, Bool]:
    """Return the key of each entry, and bit 0 of its field: the word is a branch while the key is not enabled.

    The field is an s64, relative to itself; bit 1 marks init text (include/linux/jump_label.h, 6.1-7.2).
    """
    fields = entries + np.uint64(8)
    keys = binary.relative64(fields)
    return keys & ~np.uint64(3), keys & np.uint64(1) == 1


def exception_words(binary: Binary) -> tuple[U64, U64]:
    """Return the faulting instructions and their fixups.

    12 bytes: s32 insn, s32 fixup, s16 type, s16 data (arch/arm64/include/asm/extable.h, 6.1); 8 bytes without the
    last two before 5.16. Every third word decides: in a table of the shorter entries it leads to text, too.
    """
    fields = _table(binary, "__start___ex_table", "__stop___ex_table", "__ex_table", 4)
    targets = binary.relative32(fields)
    third = binary.text.in_text(targets[2::3])
    step = 2 if 2 * int(third.sum()) > len(third) or len(fields) < 3 else 3
    return targets[::step], targets[1::step]


def bug_words(binary: Binary) -> tuple[U64, Bool]:
    """Return the BRK of every BUG and WARN, and whether it is a WARN: execution goes on after that BRK.

    s32 address, s32 file and u16 line (both only with DEBUG_BUGVERBOSE), u16 flags with bit 0 for WARN; the address
    is relative to its field (include/asm-generic/bug.h, 5.5-6.12). The size is the one at which entries find a BRK.
    """
    mask, brk = pattern("BRK")
    for size in (12, 8):
        entries = _table(binary, "__start___bug_table", "__stop___bug_table", "__bug_table", size)
        vaddrs = binary.relative32(entries)
        if len(vaddrs) and ((binary.text.words(vaddrs) & np.uint32(mask)) == np.uint32(brk)).mean() > 0.9:
            # The last two bytes, read as the upper half of the last word.
            last = binary.image.words_at(binary.image.offsets(entries + np.uint64(size - 4)), 4)
            flags = last >> np.uint64(16) if size == 12 else last
            return vaddrs, flags & np.uint64(1) == 1
    return np.zeros(0, np.uint64), np.zeros(0, np.bool_)


# Tables of a vmlinux whose entries begin with an s32 that is relative to itself (CONFIG_HAVE_ARCH_PREL32_RELOCATIONS):
# bounding symbols, section, bytes of an entry. The linker resolved them: there are no relocations. Layouts are those of
# export-internal.h, init.h, tracepoint-defs.h and static_call_types.h in include/linux (6.1-7.2). PL305 looks at jump
# labels and the exception table.
_RELATIVE: Final = (
    ("__start___ksymtab", "__stop___ksymtab", "__ksymtab", 12),
    ("__start___ksymtab_gpl", "__stop___ksymtab_gpl", "__ksymtab_gpl", 12),
    ("__initcall_start", "__initcall_end", "", 4),
    ("__con_initcall_start", "__con_initcall_end", "", 4),
    ("__start___tracepoints_ptrs", "__stop___tracepoints_ptrs", "__tracepoints_ptrs", 4),
    ("__start_static_call_sites", "__stop_static_call_sites", "", 8),
)


def relative_pointers(binary: Binary) -> Pointers:
    """Return the fields of a vmlinux that hold a distance to what they point at."""
    places = np.concatenate([_table(binary, *row) for row in _RELATIVE])
    return Pointers(places, binary.relative32(places))


def kprobe_blacklist(binary: Binary) -> U64:
    """Read addresses that no kprobe may be put on, 8 bytes each (NOKPROBE_SYMBOL, include/asm-generic/kprobes.h)."""
    return binary.absolute64(
        _table(binary, "__start_kprobe_blacklist", "__stop_kprobe_blacklist", "_kprobe_blacklist", 8)
    )


# Instructions that one entry of a section so named stands for: MOVZ and three MOVKs, one LSR, or one UBFX (since 7.3)
# (arch/arm64/include/asm/runtime-const.h, 6.12-7.3). Modules have no such sections.
_RUNTIME_CONSTANTS: Final = (("runtime_ptr_", 4), ("runtime_shift_", 1), ("runtime_mask_", 1))


def runtime_constants(binary: Binary) -> U64:
    """Find instructions into which the boot writes a constant: sections of s32, relative to themselves; ascending."""
    words = [np.zeros(0, np.uint64)]
    for section in binary.image.sections:
        for prefix, count in _RUNTIME_CONSTANTS:
            if section.name.startswith(prefix) and section.has_bytes:
                entries = np.uint64(section.addr) + np.arange(section.size // 4, dtype=np.uint64) * np.uint64(4)
                start = binary.relative32(entries)
                words.append(Ranges(start, np.full(len(start), 4 * count, np.int64)).words())
    return np.sort(np.concatenate(words))


# struct alt_instr (arch/arm64/include/asm/alternative.h, 5.5-7.3): offsets are from their own field.
ALTERNATIVE: Final = np.dtype(
    [("orig", "<i4"), ("alt", "<i4"), ("cpucap", "<u2"), ("orig_len", "u1"), ("alt_len", "u1")]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """``.altinstructions``: what each entry replaces at boot, and with what; arrays of shape (n,)."""

    original: Ranges
    replacement: Ranges  # a callback's code, if ``is_callback``: size 0
    is_callback: Bool
    capability: I64  # of the CPUs, or number of an erratum: entries with the same one are applied together
    of_all: Bool  # applied on every machine, and ``capability`` is no capability: callbacks before 6.1


def alternative_entries(binary: Binary) -> Alternatives:
    """Read every entry; none if there is no such table."""
    section = binary.image.section(".altinstructions")
    table: npt.NDArray[np.void] = binary.text.view(section, ALTERNATIVE) if section else np.zeros(0, ALTERNATIVE)
    fields = np.uint64(section.addr if section else 0) + np.arange(len(table), dtype=np.uint64) * np.uint64(
        ALTERNATIVE.itemsize
    )
    original = Ranges(binary.relative32(fields), table["orig_len"].astype(np.int64))
    replacement = Ranges(binary.relative32(fields + np.uint64(4)), table["alt_len"].astype(np.int64))
    capability = table["cpucap"].astype(np.int64)
    # Before 6.1 a callback has the number after those of all capabilities (ARM64_CB_PATCH), which differs from release
    # to release. What tells it in all: it has no replacement (the kernel's BUG_ON on ``alt_len``).
    marked = capability & _CALLBACK != 0
    of_all: Bool = ~marked & (replacement.size == 0) & (original.size > 0)
    return Alternatives(
        original=original,
        replacement=replacement,
        is_callback=marked | of_all,
        capability=capability & ~_CALLBACK,
        of_all=of_all,
    )


def alternatives(binary: Binary) -> tuple[Ranges, Ranges]:
    """Return the words that ``.altinstructions`` replaces at boot, and the replacements (callbacks have none)."""
    entries = alternative_entries(binary)
    code, replacements = ~entries.is_callback, entries.replacement
    return entries.original, Ranges(replacements.start[code], replacements.size[code])
