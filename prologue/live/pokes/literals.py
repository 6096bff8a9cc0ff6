"""Literals that the first trace sets, all of a page at a time: their words are found by comparing the kernel's text.

Kernels with our patch map each page once for up to 32 literals (``aarch64_insn_write_literals_u64``,
arch/arm64/kernel/patching.c). A probe on the mapping sees the page, and not which literals are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from prologue.live.memory.ranges import PAGE

WRITER: Final = "aarch64_insn_write_literals_u64"
_HALVES: Final = (0, 4)


class Changed(NamedTuple):
    """A word of the kernel's text that is not what it was when recording began."""

    address: int
    old: int
    new: int


def words_of_pages(pages: Iterable[int], changed: Mapping[int, Changed], later: Mapping[int, int]) -> list[Changed]:
    """Find the words of the literals in these pages, ascending.

    ``later``: what a literal's word held when it was first written by itself, after the pass. All literals get the same
    value: that of most of them.
    """
    of_interest = set(pages)
    words = {address: later.get(address, change.new) for address, change in changed.items()}
    values = {
        address: (words[address], words[address + 4])
        for address in words
        if address % 8 == 0 and address + 4 in words and address // PAGE * PAGE in of_interest
    }
    if not values:
        return []
    ((value, _),) = Counter(values.values()).most_common(1)
    return [
        Changed(address + half, changed[address + half].old, words[address + half])
        for address in sorted(values)
        if values[address] == value
        for half in _HALVES
    ]
