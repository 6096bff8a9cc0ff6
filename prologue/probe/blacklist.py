"""Code that kprobes may not touch because they, or the entry of exceptions, run it.

``populate_kprobe_blacklist`` in kernel/kprobes.c and ``arch_populate_kprobe_blacklist`` in arch/arm64/kernel/probes/
kprobes.c (6.1.192, 6.12.107, 7.2.13) list whole symbols, as kallsyms bound them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from prologue.kernel.binary import Binary
from prologue.kernel.kallsyms import Kallsyms
from prologue.kernel.kernel import Kernel
from prologue.kernel.tables import kprobe_blacklist

# In the kernel's order: symbols that bound an area, and its name. The identity map is listed up to 6.1 and is no kernel
# text later; the two of EL2 are listed where the kernel has them.
_AREAS: Final = (
    ("__kprobes_text_start", "__kprobes_text_end", ".kprobes.text (__kprobes)"),
    ("__noinstr_text_start", "__noinstr_text_end", ".noinstr.text (noinstr)"),
    ("__entry_text_start", "__entry_text_end", ".entry.text"),
    ("__irqentry_text_start", "__irqentry_text_end", ".irqentry.text"),
    ("__idmap_text_start", "__idmap_text_end", ".idmap.text (identity map)"),
    ("__hyp_text_start", "__hyp_text_end", ".hyp.text (EL2)"),
    ("__hyp_idmap_text_start", "__hyp_idmap_text_end", ".hyp.idmap.text (EL2)"),
)


class Area(NamedTuple):
    """Addresses ``[start, stop)`` that no kprobe may be put on, and the list that has them."""

    start: int
    stop: int
    reason: str


def blacklisted(kernel: Kernel, kallsyms: Kallsyms, text: range) -> list[Area]:
    """List all areas, single symbols first; ``text`` is the kernel's, from _stext to _etext."""
    result = list(listed_symbols(kernel, kallsyms, text, "the kprobe blacklist"))
    for low, high, reason in _AREAS:
        start, stop = kernel.symbols.find(low), kernel.symbols.find(high)
        if start is not None and stop is not None and start.vaddr < stop.vaddr and start.vaddr in text:
            # The list is made symbol by symbol, so the last one belongs to it as a whole.
            end = kallsyms.spans(np.array([stop.vaddr - 1], np.uint64))[1]
            result.append(Area(start.vaddr, max(stop.vaddr, int(end[0])), reason))
    return result


def listed_symbols(binary: Binary, kallsyms: Kallsyms, text: range, name: str) -> Iterator[Area]:
    """Yield the areas of NOKPROBE_SYMBOL: as many bytes as the symbol has, from the listed address on."""
    entries = kprobe_blacklist(binary)
    starts, ends = kallsyms.spans(entries)
    for entry, start, end in zip(entries.tolist(), starts.tolist(), ends.tolist(), strict=True):
        if entry in text:
            yield Area(entry, entry + end - start, f"{name} (NOKPROBE_SYMBOL)")
