"""Changes of call stacks while a trace is read: each step changes the stack of its CPU.

A call pushes; a return pops up to the frame that it returns into; an exception pushes a frame that its return pops,
with all above it, also if another exception comes at once; a branch to another function replaces the top frame (a
tail call). An exception may come between a branch and the first instruction there: what the branch does to the stack,
the return from that exception does. After a gap, where another task begins to run, and after a return to an address
that no call came from, the stack is unknown and begins anew. Where a task begins to run is what the trace says, and the
return from ``cpu_switch_to`` (arch/arm64/kernel/entry.S), whose address is one that both tasks were called from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool
from prologue.insn.rows import flows
from prologue.trace.path.assign import USER, WORLD
from prologue.trace.path.branching import BL, CALL, CONDITIONAL, ERET, INDIRECT, RET, B
from prologue.trace.path.known import KnownRanges, PerNumber
from prologue.trace.path.steps import Steps, lanes
from prologue.trace.ranges import EXCEPTION, Batch

STAY, PUSH, POP, REPLACE, ENTER, LEAVE, REENTER, FORGET, SWITCH = range(9)
_SWITCHES: Final = ("cpu_switch_to",)
_GUEST_ENTRIES: Final = ("__guest_enter", "__kvm_nvhe___guest_enter")
_EXCEPTION: Final = -1
"""The frame is an exception's; stands for a return address."""


class TaskSwitches:
    """The last task of each program (a host, a guest) in each lane, batch by batch."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], int] = {}  # by lane and program
        self._numbers: dict[tuple[str, int, int], int] = {}
        self._of_row = np.zeros(0, np.int64)  # number of each row of Batch.tasks

    def take(self, batch: Batch, programs: I64) -> Bool:
        """Return which ranges are of another task than the last range of their lane in the same program; shape (n,).

        A guest has tasks of its own: that the host's is another one is no switch.
        """
        # A task that only has another name now, by execve, is the same.
        new = [("" if max(pid, tid) >= 0 else comm, pid, tid) for comm, pid, tid in batch.tasks[len(self._of_row) :]]
        numbers = [self._numbers.setdefault(identity, len(self._numbers)) for identity in new]
        self._of_row = np.append(self._of_row, np.array(numbers, np.int64))
        lane, task = lanes(batch.ranges), self._of_row[batch.ranges["task"]]
        switched = np.zeros(len(task), np.bool_)
        order = np.lexsort((programs, lane))
        lane, task, programs = lane[order], task[order], programs[order]
        heads = np.append(True, (lane[1:] != lane[:-1]) | (programs[1:] != programs[:-1]))[: len(order)]
        switched[order[1:]] = ~heads[1:] & (task[1:] != task[:-1])
        begins = np.flatnonzero(heads)
        stops = np.append(begins[1:], len(order))
        for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True):
            key = int(lane[begin]), int(programs[begin])
            switched[order[begin]] = self._last.get(key, task[begin]) != task[begin]
            self._last[key] = int(task[stop - 1])
        return switched


class Frame(NamedTuple):
    """A function: the place of its symbol (0: none), its program's row, and the address that it returns to.

    An exception's frame has the kind of the branch that it came after, ``STAY`` if it came after none, and the address
    after that branch.
    """

    function: int
    program: int
    back: int
    due: int = STAY
    after: int = 0


class StackChange(NamedTuple):
    """A row of the batch at which a lane's stack changes; ``stack`` is the stack from there on, not to be modified."""

    row: int
    lane: int
    kind: int
    stack: list[Frame]


class Walk:
    """The walk over a trace that follows the stacks of all lanes."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._programs = known.kernels.programs
        self._steps, self._switches = Steps(), TaskSwitches()
        self._kinds = PerNumber(self._kinds_of, np.uint8)
        self._dues = PerNumber(self._dues_of, np.uint8)  # what a branch before an exception does to the stack
        self._functions_of = PerNumber(self._find_functions, np.uint64)
        self._stacks: dict[int, list[Frame]] = {}

    def changes(self, batch: Batch, numbers: I64) -> Iterator[StackChange]:
        """Yield every change in a batch, lane by lane, in order within each."""
        row_lanes = lanes(batch.ranges)
        taken = self._steps.take(batch.ranges, numbers)
        steps = self._steps.table
        kinds = np.full(len(numbers), FORGET, np.uint8)
        kinds[taken.rows] = self._kinds.up_to(len(steps))[taken.numbers]
        switched = self._switches.take(batch, self._known.table["program"][numbers].astype(np.int64))
        kinds[switched & (kinds != FORGET)] = SWITCH
        rows = np.flatnonzero(kinds != STAY)
        rows = rows[np.argsort(row_lanes[rows], kind="stable")]
        table = self._known.table[numbers[rows]]
        columns = (rows, row_lanes[rows], kinds[rows], self._functions[numbers[rows]], table["program"], table["start"])
        backs, dues = np.zeros(len(numbers), np.uint64), np.zeros(len(numbers), np.uint8)
        dues[taken.rows] = self._dues.up_to(len(steps))[taken.numbers]
        backs[taken.rows] = self._known.table["end"][steps["before"][taken.numbers]]
        fields = zip(*(column.tolist() for column in (*columns, backs[rows], dues[rows])), strict=True)
        for row, lane, kind, function, program, start, back, due in fields:
            stack = self._stacks.setdefault(lane, [])
            done = _apply(stack, kind, Frame(function, program, back), start, due)
            yield StackChange(row, lane, done, stack)

    @property
    def _functions(self) -> U64:
        """The function that each distinct range begins in."""
        return self._functions_of.up_to(len(self._known.table))

    def _find_functions(self, numbers: I64) -> U64:
        table, functions = self._known.table[numbers], np.zeros(len(numbers), np.uint64)
        for row, program in enumerate(self._programs):
            of_program = np.flatnonzero(table["program"] == row)
            functions[of_program] = program.place_starts(table["start"][of_program])
        return functions

    def _kinds_of(self, numbers: I64) -> npt.NDArray[np.uint8]:
        table, steps, functions = self._known.table, self._steps.table[numbers], self._functions
        before, after = table[steps["before"]], table[steps["after"]]
        kind = flows(self._known.last_words(steps["before"]))
        kinds = np.full(len(steps), STAY, np.uint8)
        moved = functions[steps["before"]] != functions[steps["after"]]
        moved |= before["program"] != after["program"]
        entry = after["start"] == functions[steps["after"]]
        kinds[np.isin(kind, (B, CONDITIONAL, INDIRECT)) & (moved | entry)] = REPLACE
        kinds[(before["piece"] < 0) & moved] = FORGET
        kinds[moved & (kinds == STAY)] = REPLACE  # by going on
        kinds[np.isin(kind, (BL, CALL)) & (after["start"] != before["end"])] = PUSH
        returned = np.flatnonzero(kind == RET)
        kinds[returned] = np.where(self._in_function(before[returned], _SWITCHES), SWITCH, POP)
        kinds[kind == ERET] = LEAVE
        entered = np.isin(after["start"], np.concatenate([program.vectors for program in self._programs]))
        entered |= steps["flags"] & np.uint8(EXCEPTION) != 0
        kinds[entered] = np.where(np.isin(before["program"], (USER, WORLD)), FORGET, ENTER)[entered]
        returned = np.flatnonzero(entered & (kind == ERET))
        # The exception that ends a guest's run returns to KVM's callers: __guest_enter (arch/arm64/kvm/hyp/entry.S,
        # 6.1-7.2), to whose caller __guest_exit returns.
        kinds[returned[~self._in_function(before[returned], _GUEST_ENTRIES)]] = REENTER
        return kinds

    def _dues_of(self, numbers: I64) -> npt.NDArray[np.uint8]:
        """Return what the branches before steps do to the stack, by their kinds."""
        flow = flows(self._known.last_words(self._steps.table["before"][numbers]))
        dues = np.full(len(flow), STAY, np.uint8)
        for kinds, due in (((BL, CALL), PUSH), ((RET,), POP), ((B, CONDITIONAL, INDIRECT), REPLACE)):
            dues[np.isin(flow, kinds)] = due
        return dues

    def _in_function(self, ranges: npt.NDArray[np.void], names: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Return which ranges end in a function of one of these names."""
        inside = np.zeros(len(ranges), np.bool_)
        for row, program in enumerate(self._programs):
            places = [place for name in names for place in program.find(name)]
            of_program = np.flatnonzero(ranges["program"] == row)
            inside[of_program] = np.isin(program.place_starts(ranges["end"][of_program] - np.uint64(4)), places)
        return inside


def _find(stack: list[Frame], back: int) -> int:
    """Find the innermost frame that goes on at ``back``; return its depth, -1 if no such frame is in this exception."""
    for depth in range(len(stack) - 1, -1, -1):
        if stack[depth].back == back:
            return depth
        if stack[depth].back == _EXCEPTION:  # no return leads out of an exception
            break
    return -1


def _unwind(stack: list[Frame], back: int) -> Frame | None:
    """Drop frames up to the one that goes on at ``back``, and return that; drop all if it is not there."""
    depth = _find(stack, back)
    frame = stack[depth] if depth >= 0 else None
    del stack[max(depth, 0) :]
    return frame


def _apply(stack: list[Frame], kind: int, frame: Frame, start: int, due: int) -> int:
    """Change a stack, and return the kind of the change.

    ``start`` is where execution goes on; ``frame`` goes on after the last instruction before, which does ``due``.
    """
    if kind == PUSH:
        stack.append(frame)
    elif kind == ENTER:
        stack.append(frame._replace(back=_EXCEPTION, due=due, after=frame.back))
    elif kind == REPLACE:
        _replace_top(stack, frame)
    elif kind == REENTER:  # both came after the same branch
        first = _unwind(stack, _EXCEPTION) or frame
        stack.append(frame._replace(back=_EXCEPTION, due=first.due, after=first.after))
    elif kind in (FORGET, SWITCH):
        stack[:] = [frame._replace(back=0)]
    elif kind == POP:
        _unwind(stack, start)
        _settle_top(stack, frame)
    else:
        return _leave(stack, frame, start)
    return kind


def _leave(stack: list[Frame], frame: Frame, start: int) -> int:
    """Return from an exception, and do what the branch before it does; return the kind of the change."""
    left = _unwind(stack, _EXCEPTION)
    due = STAY if left is None else left.due
    if left is not None and due == PUSH and start != left.after:
        stack.append(frame._replace(back=left.after))
        return PUSH
    if due == REPLACE and (not stack or frame[:2] != stack[-1][:2] or start == frame.function):
        _replace_top(stack, frame)
        return REPLACE
    if due == POP and _find(stack, start) >= 0:
        _unwind(stack, start)
    _settle_top(stack, frame)
    return LEAVE


def _settle_top(stack: list[Frame], frame: Frame) -> None:
    """Put a function in the place of the top frame, if it is another one.

    The function that was returned into began before the trace, or has another caller than was known.
    """
    if not stack or stack[-1][:2] != frame[:2]:
        _replace_top(stack, frame)


def _replace_top(stack: list[Frame], frame: Frame) -> None:
    top = stack[-1] if stack else Frame(0, USER, 0)
    stack[-1:] = [top._replace(function=frame.function, program=frame.program)]
