"""Changes of call stacks while a trace is read: each step changes the stack of its CPU.

A call pushes; a return pops up to the frame that it returns into; an exception pushes a frame that its return pops,
with all above it, also if another exception comes at once; a branch to another function replaces the top frame (a
tail call). After a gap, where another task begins to run, and after a return to an address that no call came from, the
stack is unknown and begins anew. Where a task begins to run is what the trace says, and the return from
``cpu_switch_to`` (arch/arm64/kernel/entry.S), whose address is one that both tasks were called from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64
from prologue.insn.rows import flows
from prologue.trace.path.assign import USER, WORLD
from prologue.trace.path.branching import BL, CALL, CONDITIONAL, ERET, INDIRECT, RET, B
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.steps import Steps, lanes
from prologue.trace.ranges import EXCEPTION, SAMPLE, Batch
from prologue.trace.views.switches import TaskSwitches

STAY, PUSH, POP, REPLACE, ENTER, LEAVE, REENTER, FORGET, SWITCH = range(9)
_SWITCHES: Final = ("cpu_switch_to",)
_GUEST_ENTRIES: Final = ("__guest_enter", "__kvm_nvhe___guest_enter")
_EXCEPTION: Final = -1
"""The frame is an exception's; stands for a return address."""


class Frame(NamedTuple):
    """A function: the place of its symbol (0: none), its program's row, and the address that it returns to."""

    function: int
    program: int
    back: int


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
        self._kinds = np.zeros(0, np.uint8)
        self._functions = np.zeros(0, np.uint64)  # of each distinct range's start
        self._stacks: dict[int, list[Frame]] = {}

    def changes(self, batch: Batch, numbers: I64) -> Iterator[StackChange]:
        """Yield every change in a batch, lane by lane, in order within each."""
        lane = lanes(batch.ranges)
        taken = self._steps.take(batch.ranges, numbers)
        self._learn()
        kinds = np.where(batch.ranges["flags"] & np.uint8(SAMPLE), np.uint8(STAY), np.uint8(FORGET))
        kinds[taken.rows] = self._kinds[taken.numbers]
        switched = self._switches.take(batch, self._known.table["program"][numbers].astype(np.int64))
        kinds[switched & (kinds != FORGET)] = SWITCH
        rows = np.flatnonzero(kinds != STAY)
        rows = rows[np.argsort(lane[rows], kind="stable")]
        table = self._known.table[numbers[rows]]
        columns = (rows, lane[rows], kinds[rows], self._functions[numbers[rows]], table["program"], table["start"])
        backs = np.zeros(len(numbers), np.uint64)
        backs[taken.rows] = self._known.table["end"][self._steps.table["before"][taken.numbers]]
        fields = zip(*(column.tolist() for column in columns), backs[rows].tolist(), strict=True)
        for row, own, kind, function, program, start, back in fields:
            stack = self._stacks.setdefault(own, [])
            _apply(stack, kind, Frame(function, program, back), start)
            yield StackChange(row, own, kind, stack)

    def _learn(self) -> None:
        """Look at the distinct ranges and steps that are new."""
        table, have = self._known.table, len(self._functions)
        fresh = np.zeros(len(table) - have, np.uint64)
        for row, program in enumerate(self._programs):
            own = np.flatnonzero(table["program"][have:] == row)
            fresh[own] = program.place_starts(table["start"][have:][own])
        self._functions = np.concatenate([self._functions, fresh])
        steps, have = self._steps.table, len(self._kinds)
        if have < len(steps):
            self._kinds = np.concatenate([self._kinds, self._kinds_of(steps[have:])])

    def _kinds_of(self, steps: npt.NDArray[np.void]) -> npt.NDArray[np.uint8]:
        table = self._known.table
        before, after = table[steps["before"]], table[steps["after"]]
        kind = flows(self._known.last_words(steps["before"]))
        kinds = np.full(len(steps), STAY, np.uint8)
        moved = self._functions[steps["before"]] != self._functions[steps["after"]]
        moved |= before["program"] != after["program"]
        entry = after["start"] == self._functions[steps["after"]]
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

    def _in_function(self, ranges: npt.NDArray[np.void], names: tuple[str, ...]) -> npt.NDArray[np.bool_]:
        """Tell which ranges end in a function of one of these names."""
        inside = np.zeros(len(ranges), np.bool_)
        for row, program in enumerate(self._programs):
            places = [place for name in names for place in program.find(name)]
            own = np.flatnonzero(ranges["program"] == row)
            inside[own] = np.isin(program.place_starts(ranges["end"][own] - np.uint64(4)), places)
        return inside


def _unwind(stack: list[Frame], back: int) -> None:
    """Drop frames up to the one that goes on at ``back``; all, if it is not there."""
    for depth in range(len(stack) - 1, -1, -1):
        if stack[depth].back == back:
            del stack[depth:]
            return
        if stack[depth].back == _EXCEPTION:  # no return leads out of an exception
            break
    stack.clear()


def _apply(stack: list[Frame], kind: int, frame: Frame, start: int) -> None:
    """Change a stack; ``start`` is where execution goes on."""
    if kind == PUSH:
        stack.append(frame)
    elif kind == ENTER:
        stack.append(frame._replace(back=_EXCEPTION))
    elif kind == REPLACE:
        stack[-1:] = [frame._replace(back=stack[-1].back if stack else 0)]
    elif kind == REENTER:
        _unwind(stack, _EXCEPTION)
        stack.append(frame._replace(back=_EXCEPTION))
    elif kind in (FORGET, SWITCH):
        stack[:] = [frame._replace(back=0)]
    else:
        _unwind(stack, start if kind == POP else _EXCEPTION)
        if not stack or (stack[-1].function, stack[-1].program) != (frame.function, frame.program):
            # The function that it returned into began before the trace, or has another caller than was known.
            stack[-1:] = [frame._replace(back=stack[-1].back if stack else 0)]
