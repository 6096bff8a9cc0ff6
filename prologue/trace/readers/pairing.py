"""Taken branches as perf prints them, made into ranges: from the target of one to the next one of the same CPU."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import U64, Bool
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.trace.ranges import AARCH32, GAP, LONGEST, SAMPLE, Tally, TraceRanges, new_ranges
from prologue.trace.readers.intern import by_lane

BRANCH: Final = np.dtype(
    [
        ("time", "<u8"),
        ("ip", "<u8"),  # the branch; 0: trace on
        ("addr", "<u8"),  # its target; 0: the trace ends here
        ("cpu", "<i4"),
        ("lane", "<i4"),  # rows of one lane are one sequence: the CPU, or the task if no CPU is printed
        ("task", "<u4"),
        ("dso", "<u4"),  # of ip
        ("era", "<u4"),  # grows at each place where any CPU may have lost branches
        ("sample", "?"),  # an instruction sample: no branch
    ],
    align=True,
)
_LAST: Final = (1 << 64) - 4
BranchRows = npt.NDArray[Any]


class _Last(NamedTuple):
    """The last branch of a lane before a batch; ``ranged``: a range ended with it, which has this ``name``."""

    addr: int
    era: int
    ranged: bool
    name: int


class Pairing:
    """The pairing of branches, batch by batch: a range is between the target of one and the next of its lane."""

    def __init__(self, account: Tally) -> None:
        self._account = account
        self._last: dict[int, _Last] = {}

    def ranges(self, rows: BranchRows) -> TraceRanges:
        """Return the ranges that rows end, in the order of the rows."""
        ranges = new_ranges(len(rows))
        for name in ("time", "cpu", "task", "dso"):
            ranges[name] = rows[name]
        ranges["end"] = rows["ip"] + np.uint64(4)
        if not rows["sample"].any():
            ranges["start"], good, joined = self._pair(rows)
            ranges["flags"][~joined] = GAP
        else:
            branch = np.flatnonzero(~rows["sample"])
            start, whole, joined = self._pair(rows[branch])
            t32 = _may_be_t32(rows["ip"])
            good = rows["sample"] & (_is_possible(rows["ip"]) | t32)
            homeless = int((rows["sample"] & ~good).sum())
            self._account.add("samples at no instruction's address", homeless)
            good[branch] = whole
            ranges["start"], ranges["flags"] = rows["ip"], np.where(t32, np.uint8(SAMPLE | AARCH32), np.uint8(SAMPLE))
            ranges["start"][branch] = start
            ranges["flags"][branch] = np.where(joined, np.uint8(0), np.uint8(GAP))
        return ranges if good.all() else ranges[good]

    def _pair(self, rows: BranchRows) -> tuple[U64, Bool, Bool]:
        """Return for each branch where its range starts, whether it has a range, and whether the one before has."""
        order = by_lane(rows["lane"])
        # Without a CPU, ranges of another name of the thread are another lane of the trace (``steps.lanes``).
        name = np.where(rows["cpu"] < 0, rows["task"], np.uint32(0))
        columns = (*(rows[column] for column in ("lane", "ip", "addr", "era")), name)
        lane, ip, addr, era, name = columns if order is None else (column[order] for column in columns)
        first = np.ones(len(rows), np.bool_)
        first[1:] = lane[1:] != lane[:-1]
        start, before = np.zeros_like(addr), np.zeros_like(era)
        start[1:], before[1:] = addr[:-1], era[:-1]
        heads = np.flatnonzero(first)
        carried = [self._last.get(key) for key in lane[heads].tolist()]
        for k, last in zip(heads.tolist(), carried, strict=True):
            start[k], before[k] = (last.addr, last.era) if last else (0, 0)
        there = (start != 0) & (ip != 0) & (before == era)
        size = ip - start  # wraps if the end is before the start
        whole = there & (size < np.uint64(LONGEST)) & _is_possible(start) & _is_possible(ip)
        impossible = int((there & ~whole).sum())
        self._account.add(
            "ranges that end before they begin, or are too long: samples are missing", impossible,
            singular="range that ends before it begins, or is too long: samples are missing",
        )  # fmt: skip
        joined = np.zeros(len(rows), np.bool_)
        joined[1:] = whole[:-1] & (name[1:] == name[:-1])
        for k, last in zip(heads.tolist(), carried, strict=True):
            joined[k] = last is not None and last.ranged and last.name == name[k]
        joined &= whole
        for k in np.flatnonzero(np.append(first[1:], True)).tolist() if len(rows) else []:
            self._last[int(lane[k])] = _Last(int(addr[k]), int(era[k]), bool(whole[k]), int(name[k]))
        self._account.add("places where tracing began (trace on)", int((ip == 0).sum()))
        if order is None:
            return start, whole, joined
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return start[back], whole[back], joined[back]


def _is_possible(vaddrs: U64) -> Bool:
    """Return which are addresses of instructions; the last word of all is not: the end of its range would be 0."""
    is_possible: Bool = (vaddrs & np.uint64(3) == 0) & (vaddrs < np.uint64(_LAST))
    return is_possible


def _may_be_t32(vaddrs: U64) -> Bool:
    """Return which are addresses of T32 instructions only: compat tasks have them, kernels do not."""
    is_t32: Bool = (vaddrs & np.uint64(3) == 2) & (vaddrs < np.uint64(KERNEL_HALF))
    return is_t32
