"""The reader of text of ``perf script``: taken branches in one form (``perf_lines``), megabytes at once.

Lines of a known shape are read as columns of a whole block. Only a line of a new shape, and one that is no branch, is
read alone. Branches are made into ranges: from the target of one to the next one of the same CPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool
from prologue.errors import InputError
from prologue.trace.ranges import GAP, HIGHEST_CPU, LONGEST, Batch, BatchNames, Tally, TraceRanges, new_ranges
from prologue.trace.readers.intern import Interner, by_lane, mix_rows, run_starts
from prologue.trace.readers.perf_block import AFTER, BEFORE, TextBlock, decimal, hex16, is_blank
from prologue.trace.readers.perf_lines import COMMAND, Shape, dso_of, other_event, read_branch, task_of
from prologue.trace.readers.streams import Peekable, blocks

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
BranchRows = npt.NDArray[Any]
_LAST: Final = (1 << 64) - 4
_MOST_SHAPES: Final = 64


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
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        start, whole, joined = (column[back] for column in self._pair(rows[order]))
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
        bounded = (start != 0) & (ip != 0) & (before == era)
        size = ip - start  # wraps if the end is before the start
        whole = bounded & (size < np.uint64(LONGEST)) & _is_possible(start) & _is_possible(ip)
        self._account.add(
            "ranges that end before they begin, or are too long: samples are missing", int((bounded & ~whole).sum()),
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


def read_perf_script(stream: Peekable, account: Tally) -> Iterator[Batch]:
    """Yield the ranges between branches, in the order of the text.

    Raises:
        InputError: most lines at its start are of another form, or no line is a branch.

    """
    reader, pairing, has_branches = _Reader(account), Pairing(account), False
    for block in blocks(stream, BEFORE, AFTER):
        rows, unread = reader.rows(block)
        if not has_branches and unread and unread >= len(rows):
            break
        has_branches |= len(rows) > 0
        if len(rows):
            yield Batch(pairing.ranges(rows), reader.names.tasks, reader.names.dsos)
    if not has_branches:
        raise InputError(f"is not what `{COMMAND}` prints: print it so, or name perf.data itself", path=stream.name)


class _Reader:
    """The state between blocks: shapes, tasks and programs of lines."""

    def __init__(self, account: Tally) -> None:
        self._account = account
        self._shapes: dict[tuple[Any, ...], Shape] = {}
        self._task_keys = Interner()
        self._task_rows: list[int] = []  # row in tasks of each key
        self._era = 0
        self.names = BatchNames()

    def rows(self, block: bytes) -> tuple[npt.NDArray[Any], int]:
        """Return the branches of a block of lines, and how many lines cannot be read."""
        text, unread = TextBlock(block), list[int]()
        rows, pending = np.zeros(text.count, BRANCH), np.arange(text.count)
        for shape in list(self._shapes.values()):
            pending = self._parse_shape(shape, text, pending, rows)
        while len(pending):
            at = int(pending[0])
            line = text.line(at)
            match = read_branch(line)
            if match is not None:
                pending = self._parse_alike(line, match, text, pending, rows)
            elif name := other_event(line):
                self._account.add(f"other events: {name}")
                pending = pending[1:]
            else:
                unread.append(at)
                pending = pending[1:]
        self._account.add("lines that cannot be read: a gap on every CPU", len(unread))
        rows["era"] = self._era + np.searchsorted(unread, np.arange(text.count)) if unread else self._era
        self._era += len(unread)
        kept = rows if rows["is_read"].all() else rows[rows["is_read"]]
        return kept, len(unread)

    def _parse_alike(
        self, line: bytes, match: re.Match[bytes], text: TextBlock, pending: I64, rows: npt.NDArray[Any]
    ) -> I64:
        """Parse the first of the remaining lines, a branch, and all of its shape, if that is new; return the others."""
        shape = Shape(line, match)
        if shape.key not in self._shapes:
            self._shapes = {shape.key: shape, **dict(list(self._shapes.items())[: _MOST_SHAPES - 1])}
            left = self._parse_shape(shape, text, pending, rows)
            if not len(left) or left[0] != pending[0]:
                return left
        row = rows[pending[0]]
        row["time"] = int(match["sec"] or 0) * 10**9 + int((match["frac"] or b"0").ljust(9, b"0"))
        row["ip"], row["addr"], row["cpu"] = int(match["ip"], 16), int(match["addr"], 16), int(match["cpu"])
        row["task"], row["dso"] = self.names.task(task_of(match)), self.names.dso(dso_of(match["from"]))
        row["is_read"] = True
        return pending[1:]

    def _parse_shape(self, shape: Shape, text: TextBlock, pending: I64, rows: npt.NDArray[Any]) -> I64:
        """Parse all remaining lines that have a shape; return the others."""
        fitting, arrows = text.fitting(shape, pending)
        lines = pending[fitting]
        if not len(lines):
            return pending
        starts = text.starts[lines]
        part = np.zeros(len(lines), BRANCH)
        (part["ip"], part["addr"]), (good, valid) = hex16(text.words, np.stack((starts + shape.ip, arrows + 4)))
        good = good & valid
        part["cpu"], valid = decimal(text.words, starts + shape.cpu[1], shape.cpu[1] - shape.cpu[0])
        good &= valid & (part["cpu"] <= HIGHEST_CPU) & ~is_blank(text.words, starts + shape.cpu[0])
        if shape.has_times:
            part["time"], valid = text.times(shape.sec, shape.frac, starts)
            good &= valid
        if shape.has_dso:
            part["dso"], valid = self._dsos_before(text, arrows)
            good &= valid
        else:
            good &= ~text.ends_with(arrows, b")")
        tasks = self._tasks_of(text, lines[good], shape)
        good[good] = tasks >= 0
        part["task"][good], part["is_read"] = tasks[tasks >= 0], True
        if good.all():
            rows[lines] = part
            return pending[~fitting]
        rows[lines[good]] = part[good]
        left = np.ones(len(pending), np.bool_)
        left[np.flatnonzero(fitting)[good]] = False
        return pending[left]

    def _tasks_of(self, text: TextBlock, lines: I64, shape: Shape) -> I64:
        """Return the row of each line's task, -1 if it has none: the characters before the CPU are its key."""
        if not len(lines):
            return lines
        starts, parts = text.starts[lines], []
        for at in range(0, shape.task_end, 8):
            over = max(at + 8 - shape.task_end, 0)
            parts.append(text.words[starts + at] << np.uint64(8 * over))
        fresh = run_starts(*parts)
        keys = mix_rows(*(part[fresh] for part in parts), np.full(int(fresh.sum()), shape.task_end, np.uint64))
        numbers, new = self._task_keys.numbers(keys)
        heads = np.flatnonzero(fresh)
        for row in new.tolist():
            match = read_branch(text.line(int(lines[heads[row]])))
            self._task_rows.append(self.names.task(task_of(match)) if match is not None else -1)
        tasks: I64 = np.array(self._task_rows, np.int64)[numbers][np.cumsum(fresh) - 1]
        return tasks

    def _dsos_before(self, text: TextBlock, ends: I64) -> tuple[I64, Bool]:
        """Return the row of the program in brackets that ends at each place, and whether there is one."""
        numbers, good = np.zeros(len(ends), np.int64), np.ones(len(ends), np.bool_)
        pending = np.arange(len(ends))
        for row, name in enumerate(self.names.dsos[1:_MOST_SHAPES], 1):
            same = text.ends_with(ends[pending], f" ({name})".encode())
            numbers[pending[same]] = row
            pending = pending[~same]
        while len(pending):  # a new program, or one beyond those that each block is compared with
            before = text.before(int(ends[pending[0]]))
            name = dso_of(before)
            same = text.ends_with(ends[pending], f" ({name})".encode() if name else before[-_MOST_SHAPES:])
            same[0] = True
            numbers[pending[same]], good[pending[same]] = self.names.dso(name), bool(name)
            pending = pending[~same]
        return numbers, good
