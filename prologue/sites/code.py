"""Functions of the kernel, by name and by address, as they are followed."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from prologue.insn import a64
from prologue.insn.decode import branches
from prologue.sites import tables
from prologue.sites.binary import Binary
from prologue.sites.init_path import veneer_target
from prologue.sites.rewritten import Rewritten

_LONGEST: Final = 1 << 14  # bytes of one function


class UnrecognisedError(Exception):
    """Code that is not as it should be, or that cannot be followed: ``place`` is the instruction."""

    def __init__(self, reason: str, place: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place


class Fragment(NamedTuple):
    """One run of a function's instructions: all of it, or its cold part."""

    name: str
    start: int
    words: list[int]
    leaders: frozenset[int]  # where paths may meet

    @property
    def stop(self) -> int:
        """The address after the last instruction."""
        return self.start + a64.INSN_SIZE * len(self.words)


class Code:
    """Functions by name and by address."""

    def __init__(self, binary: Binary, names: tuple[str, ...]) -> None:
        self._binary = binary
        self._fragments: dict[int, Fragment] = {}
        self.rewritten = Rewritten(binary)
        heads = sorted({name[:8] for name in names})  # each look-up goes through all symbols
        found = (symbol for head in heads for symbol in binary.symbols.with_prefix(head))
        symbols = {symbol.vaddr: symbol for symbol in found if base_name(symbol.name) in names}
        self._starts = sorted(symbols)
        self._symbols = symbols
        self._names: dict[int, str] = {}

    def known(self, vaddr: int) -> str:
        """The name, without compiler suffixes, of the function of interest that begins there; empty if none does."""
        symbol = self._symbols.get(vaddr)
        return base_name(symbol.name) if symbol else ""

    def name(self, vaddr: int) -> str:
        """The same for any function; its address if it has no name."""
        if vaddr not in self._names:  # each look-up goes through all symbols
            names = sorted({base_name(name) for name in self._binary.symbols.names_at(vaddr)})
            self._names[vaddr] = self.known(vaddr) or next(iter(names), f"{vaddr:#x}")
        return self._names[vaddr]

    def target(self, vaddr: int) -> int:
        """Where a call really goes, if the linker put a veneer between."""
        if vaddr in self._symbols:
            return vaddr
        raw = self._binary.text.read_at(vaddr, 12)
        words = np.frombuffer(raw, "<u4").tolist() if raw else []
        return veneer_target(words, vaddr + 8) or vaddr

    def fragment(self, vaddr: int) -> Fragment | None:
        """The function of interest, or part of one, that contains an address."""
        at = bisect_right(self._starts, vaddr) - 1
        if at < 0:
            return None
        start = self._starts[at]
        if start not in self._fragments:
            self._fragments[start] = self._read(start)
        found = self._fragments[start]
        return found if vaddr < found.stop else None

    def listing(self, vaddr: int) -> tuple[int, tuple[int, ...]]:
        """Start and words of the function that contains an address; none if that cannot be read."""
        try:
            found = self.fragment(vaddr)
        except UnrecognisedError:
            found = None
        return (found.start, tuple(found.words)) if found is not None else (vaddr, ())

    def literal(self, vaddr: int) -> int | None:
        """The 8 bytes of a literal pool at an address, as relocation leaves them; None if there are none."""
        found = int(self._binary.absolute64(np.array([vaddr], np.uint64))[0])
        return found or None

    def is_text(self, vaddr: int) -> bool:
        """Whether an address is in executable text."""
        return self._binary.text.text_map.find(vaddr) is not None

    def is_warning(self, vaddr: int) -> bool:
        """Whether execution goes on after the BRK at an address: a WARN's, not a BUG's."""
        return vaddr in self._warnings

    @cached_property
    def _warnings(self) -> frozenset[int]:
        places, warns = tables.bug_words(self._binary)
        return frozenset(places[warns].tolist())

    def _read(self, start: int) -> Fragment:
        symbol = self._symbols[start]
        raw = self._binary.text.read_at(start, symbol.size) if symbol.size % 4 == 0 else None
        if raw is None or start % 4 or not 0 < symbol.size <= _LONGEST:
            raise UnrecognisedError(f"{symbol.name} is {symbol.size} bytes at {start:#x}: no function", start)
        words = np.frombuffer(raw, "<u4")
        _, targets = branches(words, start)
        leaders = set(targets.tolist()) | self.rewritten.places(start, start + symbol.size)
        return Fragment(base_name(symbol.name), start, words.tolist(), frozenset(leaders))


def base_name(name: str) -> str:
    """A function's name without what compilers append (.cold, .isra.0, .constprop.0, .part.0)."""
    return name.partition(".")[0]
