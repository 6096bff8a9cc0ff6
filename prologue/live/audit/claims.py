"""The claims of a mechanism to words of the text, with the words that it would have written; and what it judges by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, Literal

import numpy as np

from prologue.arrays import U32, U64, Bool
from prologue.kernel.binary import Binary
from prologue.live.audit.audited import Agreement
from prologue.live.structs.variables import MemoryWords, Variables


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A running kernel, or a module of it.

    ``binary.text`` is the text that runs (breakpoints taken out), ``binary.image`` the file as linked. ``slide`` leads
    from the file's addresses to those of memory. ``variables`` are the kernel's.
    """

    binary: Binary
    slide: int
    variables: Variables
    kernel: Binary
    kernel_slide: int
    unstable: bool = False  # some of its words still changed after several readings

    def runs_at(self, vaddrs: U64) -> U64:
        """Return the run-time addresses of link-time ones."""
        return vaddrs + np.uint64(self.slide & (1 << 64) - 1)

    def read(self, vaddrs: U64, width: int) -> MemoryWords:
        """Read data of the file from memory: words of ``width`` bytes at link-time addresses, shape (n,)."""
        return self.variables.at(self.runs_at(vaddrs), width)

    def callback_names(self, vaddr: int) -> tuple[str, ...]:
        """Return the names of the kernel's function that an alternative calls."""
        linked = vaddr if self.binary is self.kernel else vaddr - self.kernel_slide & (1 << 64) - 1
        return self.kernel.symbols.names_at(linked)

    def linked(self, vaddrs: U64) -> U32:
        """Return instructions as they were linked."""
        return self.binary.image.words(vaddrs)


ClaimKind = Literal["first slot", "call", "label", "word", "data"]
"""Kinds of words: first slots, calls and labels have rules of their own if ``malformed``; data are not disassembled."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Words of one mechanism, by link-time address; arrays of shape (n,), and flags that may be of all words alike.

    ``live`` is the word in memory, ``expected`` the right one: the same, if it is one of several that may be. Of those
    that are right, ``unsure`` are so in form only, since the data that decides could not be read, and ``unstable`` are
    so at this moment only, since the mechanism was at work. ``reason`` gives, for an index, what decides. Of those that
    are wrong, ``malformed`` are so in a way that ``kind`` has a rule for, and for ``unknown`` ones the right word is
    not known. ``agreement``: if the words are right, it is because all places of one value agree. ``note`` is for the
    report.
    """

    mechanism: str
    vaddrs: U64
    live: U32
    expected: U32
    _: KW_ONLY
    reason: Callable[[int], str]
    kind: ClaimKind = "word"
    unsure: Bool | bool = False
    unstable: Bool | bool = False
    malformed: Bool | bool = False
    unknown: Bool | bool = False
    agreement: Agreement | None = None
    note: str = ""

    @property
    def right(self) -> Bool:
        """Mask of the words that are as the mechanism may have written them."""
        return np.equal(self.live, self.expected)

    def only(self, chosen: Bool) -> Claims:
        """Return the claims to some of the words; ``chosen`` has shape (n,)."""
        values: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self)}
        arrays: dict[str, Any] = {
            name: value[chosen] for name, value in values.items() if isinstance(value, np.ndarray)
        }
        rows, reason = np.flatnonzero(chosen).tolist(), self.reason
        return replace(self, **arrays, reason=lambda k: reason(rows[k]))


def words_from(places: U64, count: int) -> U64:
    """Return the addresses of so many words from each place on; shape (n * count,)."""
    return np.repeat(places, count) + np.tile(np.arange(count, dtype=np.uint64) * np.uint64(4), len(places))


def halves(values: U64) -> U32:
    """Return both words of each value, the lower first; shape (2 * n,)."""
    return values.astype("<u8").view("<u4").astype(np.uint32)
