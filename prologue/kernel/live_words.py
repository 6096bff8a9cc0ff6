"""The words that a running kernel changes while other CPUs execute them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from prologue.arrays import U64
from prologue.kernel.binary import Binary
from prologue.kernel.tables import jump_labels

# Patched BL->BL (and, for the second, NOP<->B) inside ftrace_caller if there are no CALL_OPS (arch/arm64/kernel/
# entry-ftrace.S, 5.5-6.12).
_CALLS: Final = ("ftrace_call", "ftrace_graph_call")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A live word that differs between two files of one link."""

    binary: Binary = field(repr=False)
    what: str
    vaddr: int
    old: int
    new: int

    def __str__(self) -> str:
        old, new = (self.binary.insn_text(word, self.vaddr) for word in (self.old, self.new))
        return f"{self.what}: {old} became {new}"


def live_words(binary: Binary) -> Iterator[tuple[str, U64]]:
    """Yield kind and addresses: second slots, jump labels, the calls inside ``ftrace_caller``; those in text."""
    if binary.sites is not None:
        yield "second slot", binary.sites.second
    labels = jump_labels(binary)
    yield "jump label", labels.code[binary.text.in_text(labels.code)]
    for name in _CALLS:
        symbol = binary.symbols.find(name)
        if symbol is not None:
            place = np.array([symbol.vaddr], np.uint64)
            yield name, place[binary.text.in_text(place)]


def changed(before: Binary | None, after: Binary) -> Iterator[Change]:
    """Yield live words of ``after`` that ``before`` has in the same place with another value."""
    if before is None:
        return
    for what, vaddrs in live_words(after):
        in_both = vaddrs[before.text.in_text(vaddrs)]
        old, new = before.text.words(in_both), after.text.words(in_both)
        for k in np.flatnonzero(old != new).tolist():
            yield Change(binary=after, what=what, vaddr=int(in_both[k]), old=int(old[k]), new=int(new[k]))
