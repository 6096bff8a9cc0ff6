"""Processes of a recording: their names, and the code that they executed, as far as memory at its end shows them.

A process has the program of its last execve by then. What it executed before, and code that it has no more, is not
known. The kernel keeps no times of maps, so code in memory is believed only if everything that ran there can have run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np

from prologue.arrays import U32, Bool
from prologue.live.memory.ranges import PAGE
from prologue.live.memory.state import KernelTask
from prologue.perf.address_spaces import FileMap
from prologue.trace.etm.stream import ProgramText
from prologue.trace.etm.waypoints import RangeCode, Waypoint
from prologue.trace.ranges import AARCH32, GAP
from prologue.trace.readers.recording import TraceRecords

EXECVE: Final = "setup_new_exec"
"""The function that each execve calls when the old program is gone, and no instruction of the new one ran.

The task has the number that it keeps, which a thread gets from its process in ``begin_new_exec`` before (fs/exec.c,
6.1-7.3).
"""
_NOBODY: Final = (1 << 32) - 1


class ProcessMemory(Protocol):
    """Memory of a process."""

    @property
    def maps(self) -> Sequence[FileMap]:
        """Files that are mapped as code."""

    def read(self, vaddr: int, size: int) -> bytes | None:
        """Read memory; None if some of it is not there."""


class Misfit(NamedTuple):
    """A map whose memory cannot be all that the process executed there: some of that was other code."""

    pid: int
    map: FileMap


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedProcesses:
    """Processes that were traced, as far as they are known.

    ``executed`` has the time of the last execve by process, if it was recorded; ``earlier`` marks the ranges of user
    space before it (shape of the records; None: there are none); ``texts`` has the code by thread.
    """

    tasks: Sequence[KernelTask] = ()
    maps: Mapping[int, Sequence[FileMap]] = field(default_factory=dict)
    executed: Mapping[int, int] = field(default_factory=dict)
    earlier: Bool | None = None
    texts: Mapping[int, ProgramText] = field(default_factory=dict)


def has_gaps(records: TraceRecords) -> bool:
    """Return whether a CPU was not recorded for a while after its first range: an execve there is not seen."""
    gap, cpus = records["flags"] & np.uint8(GAP) != 0, records["cpu"]
    return any(gap[cpus == cpu][1:].any() for cpu in np.unique(cpus).tolist())


def find_earlier_programs(records: TraceRecords, execve: int) -> tuple[Bool, dict[int, int]]:
    """Find the ranges that a process executed in user space before its last execve.

    Args:
        records: of all CPUs, with notes; shape (n,).
        execve: the run-time address of ``EXECVE``.

    Returns:
        Marks of these ranges, shape (n,), and the time of the last execve by process.

    """
    user, times = _of_programs(records), dict[int, int]()
    earlier: Bool = np.zeros(len(records), np.bool_)
    calls = np.flatnonzero((records["start"] == np.uint64(execve)) & (records["count"] > 0))
    for row in calls[np.argsort(records["time"][calls], kind="stable")].tolist():
        cpu, task, time = (int(records[name][row]) for name in ("cpu", "task", "time"))
        times[task] = time
        # Records of a CPU are in their order. On other CPUs time decides, which is read now and then: a task that
        # moves there takes longer than that.
        same = records["cpu"] == cpu
        before = np.where(same, np.arange(len(records)) < row, records["time"] <= np.uint64(time))
        earlier |= user & (records["task"] == task) & before
    return earlier, times


def hide(records: TraceRecords, ranges: Bool) -> TraceRecords:
    """Return records whose marked ranges are of no task that has code."""
    records = records.copy()
    records["task"][ranges] = _NOBODY
    return records


def find_code(
    records: TraceRecords, tasks: Iterable[KernelTask], memory: Mapping[int, ProcessMemory]
) -> tuple[dict[int, ProgramText], list[Misfit]]:
    """Find the code of each thread in the memory of its process.

    Args:
        records: of all CPUs, with those of earlier programs hidden.
        tasks: all tasks, at the end of the recording.
        memory: by process.

    Returns:
        The text of each thread that has any, and maps that are left out.

    """
    user, texts, misfits = _of_programs(records), dict[int, ProgramText](), list[Misfit]()
    threads: dict[int, list[int]] = {}
    for task in tasks:
        if task.pid in memory:
            threads.setdefault(task.pid, []).append(task.tid)
    for pid, tids in threads.items():
        rows = user & np.isin(records["task"], tids)
        if not rows.any():
            continue
        pieces = list[tuple[int, U32]]()
        for mapped in memory[pid].maps:
            inside = rows & (records["start"] >= np.uint64(mapped.start)) & (records["start"] < np.uint64(mapped.end))
            text = ProgramText(list(_pages(records[inside], mapped, memory[pid])))
            if all(_can_run(text, *step) for step in _steps(records, inside)):
                pieces += text.pieces
            else:
                misfits.append(Misfit(pid, mapped))
        texts.update(dict.fromkeys(tids, ProgramText(pieces)))
    return texts, misfits


def _of_programs(records: TraceRecords) -> Bool:
    """Return marks of the ranges of the host's user space, of 64 bits."""
    is_64 = records["flags"] & np.uint8(AARCH32) == 0
    user: Bool = (records["level"] == 0) & (records["count"] > 0) & (records["vmid"] <= 0) & is_64
    return user


def _pages(ranges: TraceRecords, mapped: FileMap, memory: ProcessMemory) -> Iterator[tuple[int, U32]]:
    """Read the pages of a map that have something of the ranges, those next to each other as one piece."""
    distinct = np.unique(ranges[["start", "count"]])
    ends = distinct["start"] + np.uint64(4) * distinct["count"].astype(np.uint64) - np.uint64(1)
    first, last = distinct["start"] // np.uint64(PAGE), ends // np.uint64(PAGE)
    spans = zip(first.tolist(), last.tolist(), strict=True)
    numbers = sorted({number for low, high in spans for number in range(low, high + 1)})
    run = list[tuple[int, bytes]]()
    for number in [*numbers, None]:
        if run and (number is None or number * PAGE != run[-1][0] + PAGE):
            yield run[0][0], np.frombuffer(b"".join(data for _, data in run), "<u4")
            run = []
        if number is not None and mapped.start <= number * PAGE < mapped.end:
            data = memory.read(number * PAGE, PAGE)
            if data is not None:
                run.append((number * PAGE, data))


def _steps(records: TraceRecords, inside: Bool) -> set[tuple[int, int, int | None]]:
    """Return the distinct ranges among those ``inside``: start, count, and where the flow itself went on, if known."""
    steps = set[tuple[int, int, int | None]]()
    for cpu in np.unique(records["cpu"][inside]).tolist():
        rows = np.flatnonzero(records["cpu"] == cpu)
        of_cpu, chosen = records[rows], np.flatnonzero(inside[rows])
        after = of_cpu[np.minimum(chosen + 1, len(of_cpu) - 1)]
        goes_on = (chosen + 1 < len(of_cpu)) & (after["count"] > 0) & (after["flags"] == 0) & (after["level"] == 0)
        goes_on &= after["task"] == of_cpu["task"][chosen]
        columns = (of_cpu["start"][chosen], of_cpu["count"][chosen], goes_on, after["start"])
        for start, count, is_known, to in zip(*(column.tolist() for column in columns), strict=True):
            steps.add((start, count, to if is_known else None))
    return steps


def _can_run(text: ProgramText, start: int, count: int, to: int | None) -> bool:
    """Return whether the text allows a step; also if it has nothing there, so that the range is left out anyway."""
    code = text.code(start, count)
    if code is None:
        return True
    return not code.is_broken and (to is None or _leads_to(code, start + 4 * count, to))


def _leads_to(code: RangeCode, end: int, to: int) -> bool:
    if code.last == Waypoint.INDIRECT:
        return True
    targets = {
        Waypoint.NONE: (end,),
        Waypoint.ISB: (end,),
        Waypoint.DIRECT: (code.target,),
        Waypoint.CONDITIONAL: (end, code.target),
    }
    return to in targets[code.last]
