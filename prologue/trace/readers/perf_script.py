"""The reader of text of ``perf script``: taken branches (``--itrace=b``) or instruction samples, megabytes at once.

Lines of a known shape are read as columns of a whole block. Only a line of a new shape, a line of a stack and a line
that is no sample are read alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, Bool
from prologue.errors import InputError
from prologue.trace.ranges import HIGHEST_CPU, NO_CPU, Batch, BatchNames, Tally, TracedTask
from prologue.trace.readers.digits import decimal, hex16, is_blank
from prologue.trace.readers.intern import Interner, mix_rows, run_starts
from prologue.trace.readers.pairing import BRANCH, Pairing
from prologue.trace.readers.perf_block import AFTER, BEFORE, TextBlock
from prologue.trace.readers.perf_lines import LineKind, PerfLine, Shape, dso_of, read_head, read_line
from prologue.trace.readers.streams import Peekable, blocks

_MOST_SHAPES: Final = 64
_BY_CPU: Final = 2


def read_perf_script(stream: Peekable, account: Tally) -> Iterator[Batch]:
    """Yield the ranges between branches, and sampled instructions, in the order of the text.

    Raises:
        InputError: no line is a branch or an instruction sample with an address.

    """
    reader = _Reader(account)
    pairing = Pairing(account)
    for block in blocks(stream, BEFORE, AFTER):
        rows = reader.rows(block)
        if len(rows):
            yield Batch(pairing.ranges(rows), reader.names.tasks, reader.names.dsos)
    if not reader.samples:
        raise InputError(reader.why_no_samples(), path=stream.name)


class _Reader:
    """The state between blocks: shapes, tasks and programs of lines, and a sample whose stack is not complete."""

    def __init__(self, account: Tally) -> None:
        self._account = account
        self._shapes: list[Shape] = []
        self._task_keys = Interner()
        self._task_rows: list[int] = []  # row in tasks of each key
        self._era = 0
        self._waiting: npt.NDArray[Any] | None = None  # a sample whose stack follows
        self._next = -1  # line of the block at which a stack may go on
        self.names = BatchNames()
        self.samples = 0
        self._untargeted = 0
        self._sorted_by: int | None = None  # how the last line named its lane, see _gap_where_fields_change
        self._has_event = self._has_arrow = False  # whether a line had it: perf prints it in all lines or in none
        self._has_stacks = False  # whether there are stacks below samples whose event is not printed
        self._note = -1  # line of the block that was a line of source
        self._comment = -1  # line of the block after one of a header

    def why_no_samples(self) -> str:
        """Explain in one line why there is no sample."""
        if self._untargeted:
            return "prints branches without their targets: add addr to -F of perf script"
        return "has no branches and no instruction samples: is it text of perf script --itrace=b -F +addr ?"

    def rows(self, block: bytes) -> npt.NDArray[Any]:
        """Return the branches and samples of a block of lines."""
        text = TextBlock(block)
        rows_read = BlockRows(text.count)
        rest = np.arange(text.count)
        for shape in list(self._shapes):
            rest = self._parse_shape(shape, text, rest, rows_read)
        while len(rest):
            rest = self._parse_next(text, rest, rows_read)
        if self._next != text.count:
            self._give_up(rows_read)
        self._next -= text.count
        rows = rows_read.rows(self._era)
        self._era += len(rows_read.breaks)
        self._gap_where_fields_change(rows)
        self._note -= text.count
        self._comment -= text.count
        self.samples += len(rows)
        return self._in_lanes(rows)

    def _in_lanes(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Give each row its lane: its CPU, otherwise its thread, whose name may change.

        Idle tasks of all CPUs are thread 0: rows of it without a CPU are left out.
        """
        tids = np.array([task.tid for task in self.names.tasks], np.int32)[rows["task"]]
        rows["lane"] = np.where(rows["cpu"] >= 0, rows["cpu"], -2 - tids)
        idle = (rows["cpu"] < 0) & (tids == 0)
        self._account.add(
            "branches of idle tasks that do not say their CPU", int(idle.sum()),
            singular="branch of an idle task that does not say its CPU",
        )  # fmt: skip
        self._account.add(
            "branches without CPU and thread, taken for those of one", int((rows["lane"] == -1).sum()),
            singular="branch without CPU and thread",
        )  # fmt: skip
        return rows[~idle] if idle.any() else rows

    def _gap_where_fields_change(self, rows: npt.NDArray[Any]) -> None:
        """Leave a gap between a line with a CPU, or a task, and one without: perf prints it for all lines or for none.

        The line without was damaged, and no other line shows which CPU's branch is missing.
        """
        if not len(rows):
            return
        has_cpu = rows["cpu"] >= 0
        if self._sorted_by == _BY_CPU and has_cpu.all():
            return
        has_task = np.array([task.tid >= 0 for task in self.names.tasks])[rows["task"]]
        kinds = np.where(has_cpu, _BY_CPU, has_task.astype(np.int64))
        before = kinds[:1] if self._sorted_by is None else [self._sorted_by]
        unlike = np.diff(kinds, prepend=before) != 0
        self._sorted_by = int(kinds[-1])
        if unlike.any():
            rows["era"] += np.cumsum(unlike).astype(np.uint32)
            self._era += int(unlike.sum())
            self._account.add("lines with other fields than the one before: a gap on every CPU", int(unlike.sum()))

    def _parse_next(self, text: TextBlock, rest: I64, rows_read: BlockRows) -> I64:
        """Parse the first of the remaining lines alone, or, if it has a new shape, all lines of the shape."""
        at = int(rest[0])
        line = text.line(at)
        read = read_line(line)
        # Of two addresses the first is of data, and the stack begins with the second.
        self._has_stacks |= read.kind is LineKind.SAMPLE and not read.event and text.has_stack(at)
        if self._has_stacks and read.kind is LineKind.SAMPLE and not read.event:
            read = read_head(line)
        read = self._require_same_fields(read)
        is_single = read.kind in (LineKind.BRANCH, LineKind.SAMPLE) and self._waiting is None
        if is_single and read.match is not None and Shape.is_common(read.match):
            shape = Shape(line, read.match)
            if shape.key not in [known.key for known in self._shapes]:
                left = self._parse_shape(shape, text, rest, rows_read)
                if not len(left) or left[0] != at:
                    self._shapes = [shape, *self._shapes][:_MOST_SHAPES]
                    return left
        self._take_line(read, at, rows_read)
        return rest[1:]

    def _require_same_fields(self, read: PerfLine) -> PerfLine:
        """Return the line, or an unreadable one if it lacks the event or the arrow that lines before it have."""
        if read.kind not in (LineKind.BRANCH, LineKind.SAMPLE) or read.match is None:
            return read
        if read.event:
            self._has_event = True
        elif self._has_event or (self._has_arrow and read.kind is LineKind.SAMPLE):
            return PerfLine(LineKind.UNREADABLE)
        self._has_arrow |= read.kind is LineKind.BRANCH
        return read

    def _parse_shape(self, shape: Shape, text: TextBlock, rest: I64, rows_read: BlockRows) -> I64:
        """Parse all remaining lines that have a shape; return the others."""
        if not len(rest):
            return rest
        fitting, target = text.fitting(shape, rest)
        lines = rest if fitting.all() else rest[fitting]
        starts = text.starts[lines]
        rows = np.zeros(len(lines), BRANCH)
        rows["cpu"] = NO_CPU
        numbers = [starts + shape.ip, *([target + 4] if shape.has_target else [])]
        values, valid = hex16(text.words, np.stack(numbers))
        good: Bool = valid[0] & valid[-1]
        for name, column in zip(("ip", "addr"), values, strict=False):
            rows[name] = column
        if shape.cpu:
            rows["cpu"], valid = decimal(text.words, starts + shape.cpu[1], min(shape.cpu[1] - shape.cpu[0], 8))
            good &= valid & (rows["cpu"] <= HIGHEST_CPU)
            good &= ~is_blank(text.words, starts + shape.cpu[0]) & ~is_blank(text.words, starts + shape.cpu[1] - 1)
        if shape.sec and shape.frac:
            rows["time"], valid = text.times(shape.sec, shape.frac, starts)
            good &= valid
        rows["sample"] = not shape.has_target
        ends = target if shape.has_target else text.ends[lines]
        if shape.dso:
            rows["dso"], valid = self._dsos_before(text, ends, shape)
            good &= valid
        else:
            good &= ~text.ends_with(ends, b")")
        tasks = self._tasks_of(text, lines[good], shape)
        good[good] = tasks >= 0
        if not good.all():
            lines, rows = lines[good], rows[good]
        rows["task"] = tasks[tasks >= 0]
        rows_read.add(lines, rows)
        if len(lines) == len(rest):
            return rest[:0]
        left = np.ones(len(rest), np.bool_)
        left[np.flatnonzero(fitting)[good]] = False
        return rest[left]

    def _tasks_of(self, text: TextBlock, lines: I64, shape: Shape) -> I64:
        """Return the row of each line's task, -1 if it has none: the characters before the CPU are its key."""
        if not shape.task_end or not len(lines):
            return np.zeros(len(lines), np.int64)
        starts = text.starts[lines]
        parts = []
        for at in range(0, shape.task_end, 8):
            over = max(at + 8 - shape.task_end, 0)
            parts.append(text.words[starts + at] << np.uint64(8 * over))
        fresh = run_starts(*parts)
        keys = mix_rows(*(part[fresh] for part in parts), np.full(int(fresh.sum()), shape.task_end, np.uint64))
        numbers, new = self._task_keys.numbers(keys)
        heads = np.flatnonzero(fresh)
        for row in new.tolist():
            line = read_line(text.line(int(lines[heads[row]])))
            self._task_rows.append(self._task(line) if line.match is not None else -1)
        tasks: I64 = np.array(self._task_rows, np.int64)[numbers][np.cumsum(fresh) - 1]
        return tasks

    def _task(self, line: PerfLine) -> int:
        number = line.number("id")
        pid, tid = line.number("pid"), line.number("tid")
        pid, tid = (number, number) if pid is None else (pid, tid)
        return self.names.task(TracedTask(line.text("comm"), -1 if pid is None else pid, -1 if tid is None else tid))

    def _dsos_before(self, text: TextBlock, ends: I64, shape: Shape) -> tuple[I64, Bool]:
        """Return the row of the program in brackets that ends at each place, and whether there is one."""
        numbers = np.zeros(len(ends), np.int64)
        rest = np.arange(len(ends))
        prefix = f"{shape.machine} " if shape.machine else ""
        names = text.before_offsets(ends)
        for name in [*self.names.dsos[:_MOST_SHAPES], None]:
            if name is None or not name.startswith(prefix) or (not prefix and name.startswith("VM:")):
                continue
            same = text.ends_with(names[rest], f" ({name.removeprefix(prefix)}".encode())
            numbers[rest[same]] = self.names.dso(name)
            rest = rest[~same]
            if not len(rest):
                break
        good = np.ones(len(ends), np.bool_)
        while len(rest):  # a new program, or one beyond those that each block is compared with
            before = text.before(int(ends[rest[0]]))
            name = dso_of(before)
            if name:
                same = text.ends_with(names[rest], f" ({name}".encode())
            else:
                same = text.ends_with(ends[rest], before[-_MOST_SHAPES:])
            same[0] = True
            numbers[rest[same]], good[rest[same]] = self.names.dso(prefix + name) if name else 0, bool(name)
            rest = rest[~same]
        return numbers, good

    def _take_line(self, line: PerfLine, at: int, rows_read: BlockRows) -> None:
        """Take a line that was read alone."""
        kind = line.kind
        if kind in (LineKind.STACK, LineKind.TARGET, LineKind.NOTE, LineKind.FIELDS):
            self._stack(line, at, rows_read)
            return
        self._give_up(rows_read)
        if kind is LineKind.BLANK and at == self._next:
            return
        if kind is LineKind.COMMENT:
            self._header(at, rows_read)
            return
        if kind in (LineKind.HEAD, LineKind.OTHER):  # others have stacks, too
            self._next = at + 1
        if kind in (LineKind.BRANCH, LineKind.SAMPLE):
            if kind is LineKind.BRANCH and line.number("addr", 16) is None:
                self._untargeted += 1
                rows_read.breaks.append(at)
                self._account.add("branches without a target: a gap on every CPU")
                return
            rows_read.add(np.array([at]), self._row(line))
        elif kind is LineKind.HEAD and not line.event and self._has_event:
            self._unreadable(at, rows_read)
        elif kind is LineKind.HEAD:
            self._waiting, self._has_event = self._row(line), self._has_event or line.event != ""
        elif kind is LineKind.LOSS:
            rows_read.breaks.append(at)
            self._account.add("losses that perf says: a gap on every CPU")
        elif kind in (LineKind.UNREADABLE, LineKind.BLANK):
            self._unreadable(at, rows_read)
        elif kind is LineKind.OTHER:
            self._account.add(f"other events: {line.event}")

    def _header(self, at: int, rows_read: BlockRows) -> None:
        """Take a line of perf script --header: after rows another run begins, and no branch leads there."""
        if at != self._comment and (self.samples or rows_read.any_before(at)):
            rows_read.breaks.append(at)
            self._account.add("other headers: a gap on every CPU")
        self._comment = at + 1

    def _unreadable(self, at: int, rows_read: BlockRows) -> None:
        rows_read.breaks.append(at)
        self._account.add(
            "lines that are none of perf script's: a gap on every CPU",
            singular="line that is none of perf script's: a gap on every CPU",
        )

    def _give_up(self, rows_read: BlockRows) -> None:
        """End the sample whose stack was expected: a branch without its target is an unreadable line.

        If perf prints neither events nor targets, it is no branch.
        """
        waiting, self._waiting = self._waiting, None
        if waiting is None or waiting["sample"]:
            return
        if waiting["ip"] and not self._has_event and not self._has_arrow:
            waiting["sample"] = True
            rows_read.add(np.array([max(self._next - 1, 0)]), waiting)
        else:
            self._unreadable(self._next, rows_read)

    def _stack(self, line: PerfLine, at: int, rows_read: BlockRows) -> None:
        """Take one of the lines after a sample: the first address of its stack, and the target, complete it."""
        if at != self._next:
            self._give_up(rows_read)
            # A line of source may come after a sample of a known shape; the second of two belongs to a lost sample.
            if line.kind is not LineKind.NOTE or at - 1 == self._note:
                self._unreadable(at, rows_read)
            self._note = at
            return
        self._next = -1 if line.kind is LineKind.TARGET else at + 1
        self._has_arrow |= line.kind is LineKind.TARGET
        waiting, ip, addr = self._waiting, line.number("ip", 16), line.number("addr", 16)
        if waiting is not None and not waiting["ip"] and line.kind in (LineKind.NOTE, LineKind.FIELDS):
            self._give_up(rows_read)  # they come after the stack: its first line is damaged
            return
        if waiting is None:
            if line.kind is LineKind.TARGET:
                self._unreadable(at, rows_read)
            return
        if ip is not None and not waiting["ip"]:
            waiting["ip"] = ip
            waiting["dso"] = self.names.dso(line.dso())
        if addr is not None:
            waiting["addr"] = addr
        if (waiting["ip"] and waiting["sample"]) or line.kind is LineKind.TARGET:
            rows_read.add(np.array([at]), waiting)
            self._waiting = None

    def _row(self, line: PerfLine) -> Any:
        row = np.zeros((), BRANCH)
        cpu = line.number("cpu")
        row["cpu"] = NO_CPU if cpu is None else cpu
        row["time"], row["task"] = line.time(), self._task(line)
        row["ip"], row["addr"] = line.number("ip", 16) or 0, line.number("addr", 16) or 0
        row["sample"] = line.kind is LineKind.SAMPLE or line.event.startswith("instructions")
        machine = line.text("machine").replace(" ", "")
        name = line.dso()
        row["dso"] = self.names.dso(f"{machine} {name}" if machine and name else name)
        return row


class BlockRows:
    """The rows of a block of lines, and the lines at which any CPU may have lost branches."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._parts: list[tuple[I64, npt.NDArray[Any]]] = []
        self.breaks: list[int] = []

    def add(self, lines: I64, rows: npt.NDArray[Any]) -> None:
        """Add rows of these lines, or one row; later ones of a line replace earlier ones."""
        self._parts.append((lines, np.atleast_1d(rows)))

    def any_before(self, line: int) -> bool:
        """Return whether a row is of a line before this one."""
        return any(len(lines) and int(lines[0]) < line for lines, _ in self._parts)

    def rows(self, era: int) -> npt.NDArray[Any]:
        """Return all rows in the order of their lines; ``era`` is that of the first line."""
        if len(self._parts) == 1 and len(self._parts[0][0]) == self._count and not self.breaks:
            rows = self._parts[0][1]
            rows["era"] = era
            return rows
        every, there = np.zeros(self._count, BRANCH), np.zeros(self._count, np.bool_)
        for lines, part in self._parts:
            every[lines] = part
            there[lines] = True
        kept = np.flatnonzero(there)
        rows = every[kept]
        rows["era"] = era + np.searchsorted(np.array(self.breaks, np.int64), kept, side="right")
        return rows
