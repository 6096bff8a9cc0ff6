"""Call trees: the callees of a function, call by call, as deep as wanted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from prologue.arrays import I64, Bool
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.steps import Sequences
from prologue.trace.ranges import Batch
from prologue.trace.views.walk import ENTER, FORGET, LEAVE, POP, REENTER, REPLACE, SWITCH, Frame, StackChange, Walk

_HEAD: Final = "{seconds}.{ns:09} cpu {cpu} "
_ENDS: Final = {FORGET: "gap", SWITCH: "another task"}
"""Changes after which the stack is not known, however deep: a tree that they cut off says why."""


class CallTrees:
    """The printer of a line for each function that is entered below one of the wanted functions."""

    def __init__(self, known: KnownRanges, roots: frozenset[tuple[int, int]], depth: int) -> None:
        """Print trees of ``roots``, each (row of the program, address), with ``depth`` levels below them.

        ``entered`` has the roots that were entered.
        """
        self._known = known
        self._walk, self._sequences = Walk(known), Sequences()
        self._roots = roots
        self._depth = depth
        self.entered: set[tuple[int, int]] = set()
        # For each lane in a tree, the depth of its root, and the function there: the root, or its tail call.
        self._inside: dict[int, tuple[int, Frame]] = {}

    def render(self, batch: Batch, numbers: I64, keep: Bool) -> Iterator[bytes]:
        """Write the lines of a batch, lane by lane: of the ranges that are kept, but calls are of all that ran.

        What cuts a tree off is of the range before it: the task that begins to run is another one.
        """
        sequence = self._sequences.take(batch.ranges, keep.astype(np.int64))
        before = np.zeros(len(keep), np.bool_)
        before[sequence.rows] = sequence.before > 0
        changes = ((change.row, *self._lines(batch, change)) for change in self._walk.changes(batch, numbers))
        parts = ((end if before[row] else "") + (line if keep[row] else "") for row, end, line in changes)
        yield "".join(parts).encode()

    def _lines(self, batch: Batch, change: StackChange) -> tuple[str, str]:
        """Return the line of what cuts a tree off, and of the function that is entered; empty if there is none."""
        stack, lane = change.stack, change.lane
        end, top = "", stack[-1]
        base, root = self._inside.get(lane, (None, top))
        if base is not None and change.kind == REPLACE and len(stack) == base + 1:
            self._inside[lane] = base, top
        elif base is not None and (change.kind in _ENDS or stack[base : base + 1] != [root]):
            del self._inside[lane]
            end = f"{self._head(batch, change.row)}({_ENDS[change.kind]})\n" if change.kind in _ENDS else ""
            base = None
        start = int(batch.ranges["start"][change.row])
        # A new task's first function (ret_from_fork) is entered by the return that ends cpu_switch_to.
        if change.kind in (POP, LEAVE) and (base is not None or start != top.function):
            return end, ""
        if base is None:
            if (top.program, top.function) not in self._roots or start != top.function:
                return end, ""
            self.entered.add((top.program, top.function))
            base = len(stack) - 1
            self._inside[lane] = base, top
        depth = len(stack) - 1 - base
        if depth > self._depth:
            return end, ""
        name = self._known.kernels.programs[top.program].name_at(top.function) if top.program >= 0 else "[user]"
        mark = "(exception) " if change.kind in (ENTER, REENTER) else ""
        return end, f"{self._head(batch, change.row)}{'  ' * depth}{mark}{name or '[unknown]'}\n"

    @staticmethod
    def _head(batch: Batch, row: int) -> str:
        time, cpu = int(batch.ranges["time"][row]), int(batch.ranges["cpu"][row])
        return _HEAD.format(seconds=time // 10**9, ns=time % 10**9, cpu=cpu)
