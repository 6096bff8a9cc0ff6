"""Does a function read X9 before it writes it? Then the MOV that goes before it destroys an input.

A forward walk from the end of every pair at once: each path ends where X9 is written, where it
is read, at a call (X9 is the caller's to save: AAPCS64, "General-purpose registers"), at a return, at the BRK of a
BUG, or at an indirect jump, whose targets the code does not show.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64, Bool, among, sorted_unique
from prologue.insn.decode import BL, B, matches
from prologue.insn.x9 import effect, ends_path, may_read_x9, must_write_x9, names_x9
from prologue.sites.binary import Binary
from prologue.sites.tables import bug_words

_CHUNK: Final = 1 << 17  # words classified at once: what fits into a cache is much faster


@dataclass(frozen=True, slots=True)
class Read:
    """A function whose X9 is live at its entry."""

    site: int  # index of the site
    vaddr: int  # where X9 is read
    word: int


class _Text:
    """All text sections side by side, a zero word (UDF) after each, so that a position is one index."""

    def __init__(self, binary: Binary) -> None:
        sections = [s for s in binary.text.text_sections if s.size >= 4]
        self._starts = np.array([s.addr for s in sections], np.uint64)
        sizes = np.array([s.size // 4 for s in sections], np.int64)
        self._bases = np.concatenate([[0], np.cumsum(sizes + 1)]).astype(np.int64)
        self.words: U32 = np.zeros(int(self._bases[-1]), np.uint32)
        # int32 does: no text has 2**31 instructions. -1 is "nowhere here".
        self.successor = np.full(len(self.words), -1, np.int32)
        for section, base, size in zip(sections, self._bases.tolist(), sizes.tolist(), strict=False):
            self.words[base : base + size] = binary.text.view(section, "<u4")
        for section, base in zip(sections, self._bases.tolist(), strict=False):
            index, target = binary.branches(section)
            jumps = ~matches(self.words[base + index], BL)  # a path ends at a BL
            self.successor[base + index[jumps]] = self.position(target[jumps])

    def position(self, vaddrs: U64) -> I64:
        """Index of each address, -1 outside of the text."""
        result = np.full(len(vaddrs), -1, np.int64)
        sizes = np.diff(self._bases) - 1
        todo = np.arange(len(vaddrs))
        for part in np.argsort(-sizes).tolist():  # most are in the largest section
            offset = vaddrs[todo] - self._starts[part]
            inside = offset < np.uint64(4 * sizes[part])
            result[todo[inside]] = self._bases[part] + (offset[inside] >> np.uint64(2)).astype(np.int64)
            todo = todo[~inside]
        return result

    def vaddr(self, position: int) -> int:
        """Address of a position."""
        part = int(np.searchsorted(self._bases, position, side="right")) - 1
        return int(self._starts[part]) + 4 * (position - int(self._bases[part]))


def reads_of_x9(binary: Binary) -> list[Read]:
    """Every site whose function may read X9 before it writes it, with the first such read found."""
    sites = binary.sites
    if sites is None or not len(sites):
        return []
    text = _Text(binary)
    second = text.position(sites.second)
    begin = np.where(second >= 0, second + 1, len(text.words) - 1)  # the last word ends every path
    over, stops = _stops(text, binary, text.position(sites.first))
    seen = np.zeros(len(text.words), np.bool_)
    edges: list[tuple[I64, I64]] = []
    reads: list[int] = []
    starts = _next(stops, begin)
    todo = sorted_unique(starts)
    while len(todo):
        seen[todo] = True
        todo = todo[~over[todo]]
        maybe = todo[may_read_x9(text.words[todo])]
        effects = {p: effect(int(text.words[p])) for p in maybe.tolist()}
        reads += [p for p, what in effects.items() if what == "read"]
        ended = np.array([p for p, what in effects.items() if what != "neither"], np.int64)
        going = todo[~among(todo, ended)]
        jump = text.successor[going].astype(np.int64)
        falls = ~matches(text.words[going], B)  # everything but B goes on
        source = np.concatenate([going[falls], going[jump >= 0]])
        target = _next(stops, np.concatenate([going[falls] + 1, jump[jump >= 0]]))
        edges.append((source, target))
        todo = sorted_unique(target[~seen[target]])
    return _attribute(text, starts, reads, edges) if reads else []


def _stops(text: _Text, binary: Binary, first: I64) -> tuple[Bool, npt.NDArray[np.int32]]:
    """Where paths end, and, ascending, the positions that have to be looked at.

    Nothing happens in between, which makes the walk short.
    """
    over = np.zeros(len(text.words), np.bool_)
    look = text.successor >= 0
    for start in range(0, len(text.words), _CHUNK):
        words = text.words[start : start + _CHUNK]
        part = slice(start, start + len(words))
        over[part] = ends_path(words)
        look[part] |= matches(words, B)
        # Few words have a 9 in any register field, and only these need the many masks.
        nine = np.flatnonzero(names_x9(words))
        may_read = may_read_x9(words[nine])
        over[start + nine[may_read]] = False
        over[start + nine[~may_read & must_write_x9(words[nine])]] = True
        look[start + nine[may_read]] = True
    bugs, is_warning = bug_words(binary)
    over[text.position(bugs[is_warning & binary.text.in_text(bugs)])] = False
    over[first] = True  # another function's pair begins there, and its MOV writes X9
    look |= over
    look[-1] = True  # the last word ends every path
    stops = np.flatnonzero(look).astype(np.int32)
    return over, stops


def _next(stops: npt.NDArray[np.int32], positions: I64) -> I64:
    """The first stop at or after each position."""
    return stops[np.searchsorted(stops, positions.astype(np.int32))].astype(np.int64)


def _attribute(text: _Text, begin: I64, reads: list[int], edges: list[tuple[I64, I64]]) -> list[Read]:
    """Walk back from each read to the functions that reach it."""
    source = np.concatenate([pair[0] for pair in edges])
    target = np.concatenate([pair[1] for pair in edges])
    order = np.argsort(target)
    source, target = source[order], target[order]
    starts = {position: site for site, position in enumerate(begin.tolist())}
    found: dict[int, Read] = {}
    for read in reads:
        todo, seen = [read], {read}
        while todo:
            position = todo.pop()
            if position in starts:
                site = starts[position]
                found.setdefault(site, Read(site, text.vaddr(read), int(text.words[read])))
            low, high = np.searchsorted(target, position), np.searchsorted(target, position, side="right")
            fresh = set(source[low:high].tolist()) - seen
            seen |= fresh
            todo += fresh
    return [found[site] for site in sorted(found)]
