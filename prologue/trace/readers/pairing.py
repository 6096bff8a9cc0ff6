"""Taken branches as perf prints them, made into ranges: from the target of one to the next one of the same CPU."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import U64, Bool
from prologue.trace.ranges import GAP, LONGEST, Tally, TraceRanges, new_ranges
from prologue.trace.readers.intern import by_lane

BRANCH: Final = np.dtype(
    [
        ("time", "<u8"),
        ("ip", "<u8"),  # the branch; 0: trace on
        ("addr", "<u8"),  # its target; 0: the trace ends here
        ("cpu", "<i4"),
        ("task", "<u4"),
        ("dso", "<u4"),  # of ip
        ("era", "<u4"),  # grows at each place where any CPU may have lost branches
        ("is_read", "?"),
    ],
    align=True,
)
_LAST: Final = (1 << 64) - 4
BranchRows = npt.NDArray[Any]


class _Last(NamedTuple):
    """The last branch of a CPU before a batch; ``ranged``: a range ended with it."""

    addr: int = 0
    era: int = 0
    ranged: bool = False


class Pairing:
    """The pairing of branches, batch by batch: a range is between the target of one and the next of its CPU."""

    def __init__(self, account: Tally) -> None:
        self._account = account
        self._last: dict[int, _Last] = {}

    def ranges(self, rows: BranchRows) -> TraceRanges:
        """Return the ranges that rows end, in the order of the rows."""
        order = by_lane(rows["cpu"])
        start, whole, joined = self._pair(rows if order is None else rows[order])
        if order is not None:
            back = np.empty_like(order)
            back[order] = np.arange(len(order))
            start, whole, joined = start[back], whole[back], joined[back]
        ranges = new_ranges(len(rows))
        for name in ("time", "cpu", "task", "dso"):
            ranges[name] = rows[name]
        ranges["start"], ranges["end"] = start, rows["ip"] + np.uint64(4)
        ranges["flags"][~joined] = GAP
        return ranges if whole.all() else ranges[whole]

    def _pair(self, rows: BranchRows) -> tuple[U64, Bool, Bool]:
        """Return for each branch where its range starts, whether it has a range, and whether the one before has.

        ``rows`` are those of one CPU after the other.
        """
        cpu, ip, addr, era = (rows[column] for column in ("cpu", "ip", "addr", "era"))
        first = np.ones(len(rows), np.bool_)
        first[1:] = cpu[1:] != cpu[:-1]
        start, before = np.zeros_like(addr), np.zeros_like(era)
        start[1:], before[1:] = addr[:-1], era[:-1]
        heads = np.flatnonzero(first)
        carried = [self._last.get(number, _Last()) for number in cpu[heads].tolist()]
        start[heads], before[heads] = [last.addr for last in carried], [last.era for last in carried]
        there = (start != 0) & (ip != 0) & (before == era)
        size = ip - start  # wraps if the end is before the start
        whole = there & (size < np.uint64(LONGEST)) & _is_possible(start) & _is_possible(ip)
        self._account.add(
            "ranges that end before they begin, or are too long: samples are missing", int((there & ~whole).sum()),
            singular="range that ends before it begins, or is too long: samples are missing",
        )  # fmt: skip
        joined = np.zeros(len(rows), np.bool_)
        joined[1:] = whole[:-1]
        joined[heads] = [last.ranged for last in carried]
        joined &= whole
        for k in np.flatnonzero(np.append(first[1:], True)).tolist():
            self._last[int(cpu[k])] = _Last(int(addr[k]), int(era[k]), bool(whole[k]))
        self._account.add("places where tracing began (trace on)", int((ip == 0).sum()))
        return start, whole, joined


def _is_possible(vaddrs: U64) -> Bool:
    """Return which are addresses of instructions; the last word of all is not: the end of its range would be 0."""
    is_possible: Bool = (vaddrs & np.uint64(3) == 0) & (vaddrs < np.uint64(_LAST))
    return is_possible
