"""Places in a trace where another task begins to run, with another stack."""

from __future__ import annotations

import numpy as np

from prologue.arrays import I64, Bool
from prologue.trace.path.steps import lanes
from prologue.trace.ranges import Batch, TracedTask


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
        self._learn(batch.tasks)
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

    def _learn(self, tasks: list[TracedTask]) -> None:
        """Give new tasks numbers: one that only has another name now, by ``execve``, is the same."""
        new = [_identity(task) for task in tasks[len(self._of_row) :]]
        numbers = [self._numbers.setdefault(identity, len(self._numbers)) for identity in new]
        self._of_row = np.append(self._of_row, np.array(numbers, np.int64))


def _identity(task: TracedTask) -> tuple[str, int, int]:
    return ("" if task.tid >= 0 or task.pid >= 0 else task.comm, task.pid, task.tid)
