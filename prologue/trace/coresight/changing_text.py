"""Text that was written while it was traced: a decoder has the words of the time that its trace has reached."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from prologue.arrays import U32, U64


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChanges:
    """Words that were written, in the order of time; ``clock`` turns a trace's ticks into ns, as their times are.

    Each array has shape (n,); ``old`` is the word before.
    """

    times: U64
    vaddrs: U64
    old: U32
    new: U32
    clock: Callable[[int], int]


class ChangingText:
    """Copies of the pieces of text that change, at one moment: the first words of all until the trace has a time.

    A recording begins with the text of the last time of the one before it, which may be of another CPU.
    """

    def __init__(self, changes: TextChanges, pieces: list[tuple[int, Any]]) -> None:
        """Replace each of ``pieces`` (address and bytes of all text) that changes with a copy, in place in the list."""
        self._clock, self._times = changes.clock, changes.times.tolist()
        self._places: list[tuple[U32, int, int, int] | None] = [None] * len(self._times)
        for row, (vaddr, data) in enumerate(pieces):
            words = np.frombuffer(data, "<u4")
            at = changes.vaddrs - np.uint64(vaddr)
            inside = np.flatnonzero((changes.vaddrs >= np.uint64(vaddr)) & (at < np.uint64(4 * len(words))))
            if not len(inside):
                continue
            copy = words.copy()
            pieces[row] = (vaddr, copy)
            for k in inside.tolist():
                self._places[k] = (copy, int(at[k]) // 4, int(changes.old[k]), int(changes.new[k]))
        for place in reversed(self._places):
            if place is not None:
                place[0][place[1]] = place[2]
        self._done = 0

    def move_to(self, ticks: int) -> bool:
        """Go to the text of a time, forward or back; return whether words were written on the way."""
        time = self._clock(ticks)
        if not time:
            return False
        done, before = bisect_right(self._times, time), self._done
        for place in self._places[before:done]:
            if place is not None:
                place[0][place[1]] = place[3]
        for place in reversed(self._places[done:before]):
            if place is not None:
                place[0][place[1]] = place[2]
        self._done = done
        return done != before
