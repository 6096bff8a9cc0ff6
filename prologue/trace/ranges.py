"""The form of a trace in memory: straight ranges of instructions that ran, in the order of the input.

Decoders give either taken branches (perf) or ranges (OpenCSD, QEMU's blocks). Both are ranges here: between two of one
CPU stands one step, from the last instruction of the first to the first of the second.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64

RANGE: Final = np.dtype(
    [
        ("time", "<u8"),  # ns; of the end of the range if the input has no other; 0 if it has none
        ("start", "<u8"),  # address of the first instruction
        ("end", "<u8"),  # address after the last
        ("cpu", "<i4"),
        ("task", "<u4"),  # row in Batch.tasks
        ("dso", "<u4"),  # row in Batch.dsos
        ("vmid", "<i4"),
        ("level", "u1"),  # exception level
        ("flags", "u1"),
        ("insns", "<u4"),  # instructions, if these are not of four bytes each, as T32's are not; otherwise 0
        ("cycles", "<u4"),  # cycles from the count before up to this range; 0 if the trace has no count here
    ],
    align=True,
)
TraceRanges = npt.NDArray[Any]
"""An array of ``RANGE``, shape (n,). The next range of the same CPU follows the one before, unless it has ``GAP``.

A range ends at a taken branch, or anywhere: then the next one begins where it ends.
"""

NO_CPU: Final = -1
HIGHEST_CPU: Final = 4095
"""CONFIG_NR_CPUS' upper end (arch/arm64/Kconfig, 6.12)."""
NO_VMID: Final = -1
NO_LEVEL: Final = 255

GAP: Final = 1  # what ran before it on this CPU is not known
EXCEPTION: Final = 2  # an exception or interrupt came before it: no branch led here
RETURN: Final = 4  # an exception return came before it
LOST: Final = 16  # with GAP: the input says that data were lost here
AARCH32: Final = 32  # no A64 code
OTHER_WORLD: Final = 64  # Secure, Realm or Root state: text of another world than the host's and its guests'
UNSURE: Final = 128  # the decoder may be astray here, whatever its image: it may have followed a wrong return address

_PLURAL: Final = re.compile(r"\A((?:\w+ )??\w*?)(?:(?<=ch)es|(?<=ss)es|(?<!s)s)\b")  # of the first two words
UNKNOWN_CYCLES: Final = (1 << 32) - 1
"""Cycles are counted from here on; how many went before, the trace unit does not know."""

BATCH: Final = 1 << 18
LONGEST: Final = 1 << 20
"""Bytes between two taken branches; no compiler makes more, so a longer range is two that do not belong together."""


def add_cycles(before: int, count: int) -> int:
    """Add a trace unit's count of cycles to those that wait for their range; a count of 0 says that it is not known."""
    if before == UNKNOWN_CYCLES or not count:
        return UNKNOWN_CYCLES
    return min(before + count, UNKNOWN_CYCLES)


class TracedTask(NamedTuple):
    """A task as the kernel names it; -1 for numbers that the input does not have."""

    comm: str
    pid: int
    tid: int


NO_TASK: Final = TracedTask("", -1, -1)


class Batch(NamedTuple):
    """Ranges, and the names that their rows ``task`` and ``dso`` refer to; row 0 is "not known"."""

    ranges: TraceRanges
    tasks: list[TracedTask]
    dsos: list[str]


class BatchNames:
    """The names that all batches of a trace share: each gets a row when it is first met, and keeps it."""

    def __init__(self) -> None:
        self.tasks, self.dsos = [NO_TASK], [""]
        self._tasks: dict[TracedTask, int] = {NO_TASK: 0}
        self._dsos: dict[str, int] = {"": 0}

    def task(self, task: TracedTask) -> int:
        """Return the row of a task; a new one gets the next."""
        if task not in self._tasks:
            self._tasks[task] = len(self.tasks)
            self.tasks.append(task)
        return self._tasks[task]

    def dso(self, name: str) -> int:
        """Return the row of a program; a new one gets the next."""
        if name not in self._dsos:
            self._dsos[name] = len(self.dsos)
            self.dsos.append(name)
        return self._dsos[name]


class Onward(Enum):
    """The way on from a range, as far as the input has it without a next range."""

    NEXT = "to the next instruction"
    TARGET = "to the target of its last instruction, a direct branch"
    UNKNOWN = "not said"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadImage:
    """A report of the decoder: the program image that it was given cannot be what ran.

    ``start`` to ``vmid`` are of the last range of that CPU before the report (0 to 0 if a gap came after it), and
    ``onward`` is the way of the decoder from there.
    """

    why: str
    start: int
    end: int
    flags: int
    level: int
    vmid: int
    onward: Onward


@dataclass(slots=True, kw_only=True)
class Reported:
    """A count of equal reports, and the CPU and time (ns, 0 if not known) of the first one."""

    count: int = 0
    cpu: int = NO_CPU
    time: int = 0


def is_earlier(time: int, other: int) -> bool:
    """Return whether a time is before another one; a time that is not known (0) is after all."""
    return time != 0 and (other == 0 or time < other)


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of all that a reader met besides ranges, by name: input that it cannot use is not dropped in silence."""

    counts: Counter[str] = field(default_factory=Counter)
    _singulars: dict[str, str] = field(default_factory=dict)
    bad_images: dict[BadImage, Reported] = field(default_factory=dict)
    traced: Counter[int] = field(default_factory=Counter)
    """Bytes of trace by CPU, as far as the input shows them; of ``NO_CPU`` those of which it does not say the CPU."""
    undecoded: Counter[int] = field(default_factory=Counter)
    """The bytes among them that no decoder could decode."""

    def count_bytes(self, cpu: int, size: int, lost: int) -> None:
        """Count the bytes of a recording of a CPU, and of these the ones that were not decoded."""
        if size:
            self.traced[cpu] += size
            self.undecoded[cpu] += lost

    def undecoded_text(self, cpu: int | None = None) -> str:
        """Say how much of a CPU's trace, or of all of it, was not decoded; empty if all was."""
        lost = self.undecoded.total() if cpu is None else self.undecoded[cpu]
        total = self.traced.total() if cpu is None else self.traced[cpu]
        if not lost:
            return ""
        share = min(max(100 * lost / total, 0.01), 99.99 if lost < total else 100)
        verb = "was" if lost == 1 else "were"
        return f"{lost:,} of {total:,} bytes of trace ({share:.2f}%) {verb} not decoded"

    def report(self, bad: BadImage, cpu: int, time: int) -> None:
        """Count a report of the decoder about its image."""
        reported = self.bad_images.setdefault(bad, Reported(cpu=cpu, time=time))
        reported.count += 1

    def bytes_data(self) -> list[dict[str, int | None]]:
        """Return the bytes of trace of each CPU for JSON, and how many of them were not decoded."""
        return [
            {"cpu": cpu if cpu != NO_CPU else None, "bytes": size, "not_decoded": self.undecoded[cpu]}
            for cpu, size in sorted(self.traced.items())
        ]

    def add(self, name: str, count: int = 1, *, singular: str = "") -> None:
        """Count things of a name, a plural; ``singular`` is the name of a single one, if not only the noun differs."""
        if count:
            self.counts[name] += count
            self._singulars[name] = singular or _PLURAL.sub(r"\1", name, count=1)

    def lines(self) -> list[str]:
        """Return a line for each CPU whose trace was not decoded, then for each name, the most frequent first."""
        names = self._singulars
        undecoded = [
            f"{f'CPU {cpu}' if cpu != NO_CPU else 'CPU not known'}: {self.undecoded_text(cpu)}"
            for cpu, lost in sorted(self.undecoded.items())
            if lost
        ]
        return undecoded + [
            f"{count:,} {names[name] if count == 1 else name}" for name, count in self.counts.most_common()
        ]


def new_ranges(count: int) -> TraceRanges:
    """Return ``count`` ranges of which nothing is known yet."""
    ranges = np.zeros(count, RANGE)
    ranges["cpu"], ranges["vmid"], ranges["level"] = NO_CPU, NO_VMID, NO_LEVEL
    return ranges


def count_instructions(ranges: TraceRanges) -> I64:
    """Count the instructions of each range; shape (n,)."""
    words = ((ranges["end"] - ranges["start"]) >> np.uint64(2)).astype(np.int64)
    counts = ranges["insns"]
    return np.where(counts != 0, counts.astype(np.int64), words) if counts.any() else words


def shift_times(times: U64, ns: int) -> U64:
    """Shift times by ``ns``, which may be negative: to 1 at least, as 0 is no time, and to 64 bits at most."""
    if ns >= 0:
        most = np.uint64(ns)
        return np.minimum(times, ~most) + most
    less = np.uint64(-ns)
    return np.where(times > less, times - np.minimum(less, times), np.uint64(1))
