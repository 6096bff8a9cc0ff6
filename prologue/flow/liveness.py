"""Finds where X9 holds a value that the MOV of a patch site destroys.

At a function's entry: does the function read X9 before it writes it? After a call: does the caller do that? Then it
relies on a promise of the function that it calls, such as Clang's ``preserve_most``.

A path ends where X9 is written, where it is read, at a call (X9 is the caller's to save: AAPCS64, "General-purpose
registers"), at a return, at the BRK of a BUG, or at an indirect jump, whose targets the code does not show. Few entries
and calls have a read after them, so a walk against the flow, from all reads, finds these first; a forward walk, which
knows each instruction exactly, then confirms them one by one, and follows the constants that decide branches.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import I32, I64, U64, Bool, among, sorted_unique
from prologue.flow.callees import Callees
from prologue.flow.control_flow import Flow
from prologue.flow.feasible import Meaning, is_call, read_from
from prologue.insn.decode import BL, B, matches
from prologue.insn.effect import effect, ends_path, loads, stores_all
from prologue.insn.rows import X9, look_over, may_read, must_write
from prologue.kernel.binary import Binary
from prologue.kernel.sites import NO_SITES
from prologue.kernel.tables import bug_words

_CHUNK: Final = 1 << 16  # words classified at once: what fits into a cache is much faster


class LiveEntry(NamedTuple):
    """A function whose X9 is live at its entry."""

    site: int  # index of the site
    vaddr: int  # where X9 is read
    word: int


class LostCall(NamedTuple):
    """A call that X9 does not survive, although it is read after it."""

    call: int  # address of the BL
    callee: int  # address that the BL calls
    traced: int  # address of the traced function: the callee, or the one that it jumps to
    vaddr: int  # where X9 is read
    word: int


class Liveness:
    """The walks over one file."""

    def __init__(self, binary: Binary) -> None:
        self._binary = binary
        self._flow = Flow(binary)
        sites = binary.sites or NO_SITES
        self._first, self._entry = sites.first, sites.entry
        # Masks of the words at which a path ends, and of those that may read X9; positions of both, and of branches.
        self._ends, self._may_read, self._stops = _stops(self._flow, binary, self._first)
        self._seen = np.zeros(len(self._flow.words), np.bool_)  # by the walk against the flow
        self._kept = np.zeros(0, np.int64)  # positions of calls over which X9 is kept
        self._origin: dict[int, tuple[int, int]] = {}  # where X9 is read after each of them

    def at_entries(self) -> list[LiveEntry]:
        """Find every site whose function may read X9 before it writes it, with the first read of each."""
        _ = self.over_calls  # its walk sees all words from which a read may be reached
        second = self._flow.positions(self._first + np.uint64(4))
        begin = second + 1
        sites = np.flatnonzero((second >= 0) & self._seen[self._next(begin)])
        reads = self._reads_from(begin[sites]).items()
        confirmed = ((k, self._confirmed(int(begin[sites[k]]), where, at_entry=True)) for k, where in reads)
        return [LiveEntry(int(sites[k]), *where) for k, where in confirmed if where is not None]

    @cached_property
    def over_calls(self) -> list[LostCall]:
        """Every BL to a traced function that returns, and after which X9 may be read before it is written.

        A call that keeps X9, and to whose callee that matters, is itself a reason to keep X9 over an earlier one.
        """
        callees = Callees(self._binary, np.concatenate([self._first, self._entry]))
        lost: list[LostCall] = []
        done = np.zeros(0, np.int64)
        wanting = np.flatnonzero(self._may_read)
        while len(wanting):
            calls = self._calls_before(wanting)
            calls = calls[~among(calls, done)]
            done = np.concatenate([done, calls])
            kept = []
            for k, read in self._reads_from(calls + 1, at_entry=False).items():
                at = calls[[k]]
                vaddrs = self._flow.vaddrs(at)
                call, target = int(vaddrs[0]), int(self._binary.jump_targets(vaddrs, self._flow.words[at])[0])
                # A module's call of another file's function has no target yet, and seems to call itself.
                callee = callees.find(target) if target != call else None
                if callee is None or not callee.returns:
                    continue
                where = self._confirmed(int(calls[k]) + 1, read, at_entry=False)
                if where is not None:
                    kept.append(int(calls[k]))
                    self._origin[kept[-1]] = where
                    if callee.traced is not None:
                        vaddr, word = where
                        lost.append(LostCall(call=call, callee=target, traced=callee.traced, vaddr=vaddr, word=word))
            wanting = np.array(kept, np.int64)
            self._kept = np.concatenate([self._kept, wanting])
        return sorted(lost)

    def _calls_before(self, reads: I64) -> I64:
        """Find every BL from which a path without a certain write of X9 leads to one of the reads.

        Paths that an earlier walk has seen are not walked again.
        """
        ends, stops, words, seen = self._ends, self._stops, self._flow.words, self._seen
        source, target = self._branches
        calls = [np.zeros(0, np.int64)]
        todo = _fresh(reads, seen)
        while len(todo):
            seen[todo] = True
            above = stops[np.searchsorted(stops, todo.astype(np.int32)) - 1]  # the last word, if there is none
            is_call = matches(words[above], BL)
            calls.append(above[is_call].astype(np.int64))
            # Branches that come in on the way up: what is above a call or a write is not on the way.
            low = np.searchsorted(target, above, side="right")
            count = np.maximum(np.searchsorted(target, todo.astype(np.int32), side="right") - low, 0)
            first = np.repeat(low - np.cumsum(count) + count, count)
            coming = source[first + np.arange(len(first))]
            falls = above[~ends[above] & ~matches(words[above], B)]
            todo = _fresh(np.concatenate([coming, falls]).astype(np.int64), seen)
        return sorted_unique(np.concatenate(calls))

    @cached_property
    def _branches(self) -> tuple[I32, I32]:
        """Position of every branch but calls, and of its target, in the order of targets."""
        both = self._flow.targets.astype(np.int64) << 32 | self._flow.jumps  # in one number
        both.sort(kind="stable")  # targets are nearly in order, too
        return both.astype(np.int32), (both >> 32).astype(np.int32)

    def _reads_from(self, begin: I64, *, at_entry: bool = True) -> dict[int, tuple[int, int]]:
        """Walk from the positions: index of each from which a read is reached, address and word of that read.

        ``at_entry``: from functions' entries, and not from what comes after calls.
        """
        words, ends = self._flow.words, self._ends
        seen = np.zeros(len(words), np.bool_)
        edges: list[tuple[I64, I64]] = []
        reads: list[int] = []
        starts = self._next(begin)
        todo = sorted_unique(starts)
        while len(todo):
            seen[todo] = True
            reads += todo[among(todo, self._kept)].tolist()
            todo = todo[~ends[todo]]
            maybe = todo[self._may_read[todo]]
            effects = {p: effect(int(words[p])) for p in maybe.tolist() if not self._is_dump(p, at_entry=at_entry)}
            reads += [p for p, result in effects.items() if result == "read"]
            ended = np.array([p for p, result in effects.items() if result != "neither"], np.int64)
            going = todo[~among(todo, ended)]
            jump = self._flow.after_jump(going)
            falls = ~matches(words[going], B)  # everything but B goes on
            source = np.concatenate([going[falls], going[jump >= 0]])
            target = self._next(np.concatenate([going[falls] + 1, jump[jump >= 0]]))
            edges.append((source, target))
            todo = _fresh(target, seen)
        return self._attribute(starts, reads, edges) if reads else {}

    def _confirmed(self, begin: int, where: tuple[int, int], *, at_entry: bool) -> tuple[int, int] | None:
        """Return the read of X9 on a way that constants leave open, or None; ``where`` if ways are too many."""

        def meaning(position: int) -> Meaning | None:
            if position in kept:
                return "read"
            if self._ends[position]:
                word = int(self._flow.words[position])
                ends = self._pairs[position] or (ends_path(word) and not is_call(word))
                return "end" if ends else "written"
            if not self._may_read[position] or self._is_dump(position, at_entry=at_entry):
                return "untouched"
            return None

        kept = set(self._kept.tolist())
        position = read_from(self._flow, begin, meaning)
        if position is None:
            return None
        return where if position == begin else self._origin.get(position) or self._at(position)

    @cached_property
    def _pairs(self) -> Bool:
        """Mask of the positions that are first slots: another function begins."""
        pairs = np.zeros(len(self._flow.words), np.bool_)
        pairs[self._flow.positions(self._first)] = True
        return pairs

    def _at(self, position: int) -> tuple[int, int]:
        """Return the address and the word at a position."""
        return int(self._flow.vaddrs(np.array([position]))[0]), int(self._flow.words[position])

    def _is_dump(self, position: int, *, at_entry: bool) -> bool:
        """Return whether code there writes down all registers, whatever they hold.

        At a function's entry that is so if the function does not load X9 again: one that does preserves it.
        """
        before, word, after = self._flow.words[[position - 1, position, position + 1]].tolist()
        if not stores_all(before, word, after):
            return False
        return not at_entry or not self._loads_x9(position)

    def _loads_x9(self, position: int) -> bool:
        """Return whether the function there loads X9 from memory; yes if no symbol says where it begins and ends."""
        vaddr, _ = self._at(position)
        offset = self._binary.symbols.locate(vaddr).symbol_offset
        symbol = self._binary.symbols.function_at(vaddr - offset)
        if symbol is None or symbol.size <= offset:
            return True
        first = position - offset // 4
        words = self._flow.words[max(first, 0) : first + symbol.size // 4]
        return any(loads(word, X9) for word in words.tolist())

    def _next(self, positions: I64) -> I64:
        """Return the first stop at or after each position."""
        return self._stops[np.searchsorted(self._stops, positions.astype(np.int32))].astype(np.int64)

    def _attribute(self, begin: I64, reads: list[int], edges: list[tuple[I64, I64]]) -> dict[int, tuple[int, int]]:
        """Walk back from each read to the positions that reach it."""
        source = np.concatenate([pair[0] for pair in edges])
        target = np.concatenate([pair[1] for pair in edges])
        order = np.argsort(target)
        source, target = source[order], target[order]
        by_start = np.argsort(begin, kind="stable")
        ordered = begin[by_start]
        reads_by_begin: dict[int, tuple[int, int]] = {}
        for read in reads:
            where = self._origin.get(read) or self._at(read)
            todo, seen = [read], {read}
            while todo:
                position = todo.pop()
                starts = by_start[slice(*np.searchsorted(ordered, [position, position + 1]).tolist())]
                for start in starts.tolist():  # more than one, if nothing happens between them
                    reads_by_begin.setdefault(start, where)
                low, high = np.searchsorted(target, [position, position + 1]).tolist()
                fresh = set(source[low:high].tolist()) - seen
                seen |= fresh
                todo += fresh
        return {start: reads_by_begin[start] for start in sorted(reads_by_begin)}


def _stops(flow: Flow, binary: Binary, first: U64) -> tuple[Bool, Bool, I32]:
    """Return the ends of paths; the words that may read X9; and, ascending, the positions to be looked at.

    Nothing happens in between, which makes the walks short.
    """
    ends = np.zeros(len(flow.words), np.bool_)
    look = np.zeros(len(flow.words), np.bool_)
    look[flow.jumps] = True
    reading = np.zeros(len(flow.words), np.bool_)
    parts = [np.zeros(0, np.int64)]
    for start in range(0, len(flow.words), _CHUNK):
        words = flow.words[start : start + _CHUNK]
        ends[start : start + len(words)], uses = look_over(words)
        parts.append(start + np.flatnonzero(uses))
    # Few words may use X9, and only these need the many masks.
    nine = np.concatenate(parts)
    words = flow.words[nine]
    maybe = may_read(words, X9)
    reading[nine[maybe]] = True
    ends[nine[maybe]] = False
    ends[nine[~maybe & must_write(words, X9)]] = True
    bugs, is_warning = bug_words(binary)
    ends[flow.positions(bugs[is_warning & binary.text.in_text(bugs)])] = False
    ends[flow.positions(first)] = True  # another function's pair begins there, and its MOV writes X9
    look |= ends | reading
    look[[0, -1]] = True  # there is always one above, and the last word ends every path
    return ends, reading, np.flatnonzero(look).astype(np.int32)


def _fresh(positions: I64, seen: Bool) -> I64:
    """Return the positions that were not seen, ascending, each once."""
    return sorted_unique(positions[~seen[positions]])
