"""The summary of a trace in a few lines: counts of ranges, gaps, and addresses in no image."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, NamedTuple

import numpy as np

from prologue.arrays import I64, Bool
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.trace.path.assign import UNDECIDED, USER, WORLD
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.steps import lanes
from prologue.trace.ranges import GAP, OTHER_WORLD, Batch, count_instructions
from prologue.trace.readers.intern import RunCounts, run_starts
from prologue.words import counted

_MOST: Final = 5
PROCESS: Final = "not a kernel's"
EITHER: Final = "of host or guest"
ELSEWHERE: Final = "of Secure, Realm or Root state"
OUTSIDE: Final = "not in the image"


class UnknownRanges(NamedTuple):
    """Ranges without instructions: why, of which image, how many, and where they begin by areas of 64 KiB."""

    why: str
    image: str | None
    ranges: int
    areas: dict[int, int]

    def line(self) -> str:
        """Describe them in a line of text."""
        count = counted(self.ranges, "range")
        if self.why in (PROCESS, ELSEWHERE):
            return f"{count} {'is' if self.ranges == 1 else 'are'} {self.why}: not disassembled"
        areas = ", ".join(f"{area:#x} ({count:,})" for area, count in list(self.areas.items())[:_MOST])
        more = len(self.areas) - _MOST
        areas += f" and {more:,} other {'area' if more == 1 else 'areas'} of 64 KiB" if more > 0 else ""
        if self.why == OUTSIDE:
            return f"{count} {'is' if self.ranges == 1 else 'are'} not in {self.image}: {areas}"
        return (
            f"{count} may be of host or guest, and the trace does not say which "
            f"(levels and VMIDs, perf's dso; --guest-vmlinux): {areas}"
        )


class TraceSummary:
    """The counts of a trace, which grow while it is read."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._runs = RunCounts()
        self.instructions = 0  # in all ranges, also in those of no image
        self._gaps = self._hypervisor = 0
        self._cpus: set[int] = set()
        self._begun: set[int] = set()  # of them those that have a gap: the first one is their begin
        self._processes: Counter[str] = Counter()

    def add(self, batch: Batch, numbers: I64) -> None:
        """Count a batch."""
        self._runs.add(numbers)
        self.instructions += int(count_instructions(batch.ranges).sum())
        gaps = batch.ranges["flags"] & np.uint8(GAP) != 0
        self._gaps += int(gaps.sum())
        low = (batch.ranges["level"] == 2) & (batch.ranges["start"] < np.uint64(KERNEL_HALF))
        self._hypervisor += int((low & (batch.ranges["flags"] & np.uint8(OTHER_WORLD) == 0)).sum())
        cpu = lanes(batch.ranges)
        self._cpus.update(cpu[run_starts(cpu)].tolist())
        self._begun.update(np.unique(cpu[gaps]).tolist())
        tasks = batch.ranges["task"][self._known.table["program"][numbers] == USER]
        for task, count in zip(*(column.tolist() for column in np.unique(tasks, return_counts=True)), strict=True):
            self._processes[batch.tasks[task].comm] += count

    @property
    def runs(self) -> I64:
        """Counts of each distinct range; shape of the table of known ranges."""
        return self._runs.up_to(len(self._known.table))

    @property
    def gaps(self) -> int:
        """Gaps, except at the start of each CPU's trace."""
        return self._gaps - len(self._begun)

    def lines(self) -> list[str]:
        """Return lines of text: first counts of all that was read, then of ranges without instructions."""
        runs = self.runs
        ranges, distinct = int(runs.sum()), int((runs > 0).sum())
        counts = (counted(self.instructions, "instruction"), counted(len(self._cpus), "CPU"), counted(self.gaps, "gap"))
        notes = [f"{counted(ranges, 'range')} ({distinct:,} distinct), {', '.join(counts)}"]
        unknown = [image.line() + (self._named() if image.why == PROCESS else "") for image in self.unknown()]
        return [*notes, *self._of_file(), *unknown]

    def _named(self) -> str:
        """Name the processes that ran ranges of no kernel, as far as the trace has names."""
        named = Counter({name: count for name, count in self._processes.items() if name})
        if not named:
            return ""
        most = [f"{name} {count:,}" for name, count in named.most_common(_MOST)]
        others = self._processes.total() - sum(count for _, count in named.most_common(_MOST))
        return f" ({', '.join(most)}{f', others {others:,}' if others else ''})"

    def _of_file(self) -> list[str]:
        """Count ranges in text that memory does not have, such as init text after boot."""
        table, runs, count = self._known.table, self.runs, 0
        for row, program in enumerate(self._known.kernels.programs):
            pieces = [k for k, piece in enumerate(program.pieces) if piece.of_file]
            count += int(runs[(table["program"] == row) & np.isin(table["piece"], pieces)].sum())
        are = "1 range is" if count == 1 else f"{count:,} ranges are"
        return [f"{are} in text that memory does not have: shown with the words of the file"] if count else []

    def unknown(self) -> list[UnknownRanges]:
        """Return the ranges without instructions, by reason and image."""
        table, times = self._known.table, self.runs
        ran = times > 0
        programs = self._known.kernels.programs
        cases: list[tuple[str, str | None, Bool]] = [
            (PROCESS, None, table["program"] == USER),
            (EITHER, None, table["program"] == UNDECIDED),
            (ELSEWHERE, None, table["program"] == WORLD),
            *(
                (OUTSIDE, program.name, (table["program"] == row) & (table["piece"] < 0))
                for row, program in enumerate(programs)
            ),
        ]
        return [
            UnknownRanges(
                why,
                image,
                int(times[ran & chosen].sum()),
                self._areas(ran & chosen) if why not in (PROCESS, ELSEWHERE) else {},
            )
            for why, image, chosen in cases
            if (ran & chosen).any()
        ]

    def why_no_step(self, unjudged: Counter[str]) -> str:
        """Explain why no step of the trace could be judged, and what to do; ``unjudged`` are counts by reason."""
        unknown: Counter[str] = Counter()
        for image in self.unknown():
            unknown[image.why] += image.ranges
        if unknown.total() < self.runs.sum():
            reasons = [f"{counted(count, 'step')}{reason.removeprefix('steps')}" for reason, count in unjudged.items()]
            return ", ".join(reasons) or "no two ranges of the image follow each other without a gap"
        hypervisor = min(self._hypervisor, unknown[OUTSIDE])
        kinds = {
            "of user programs or firmware": unknown[PROCESS],
            "of Secure, Realm or Root state": unknown[ELSEWHERE],
            "of a hypervisor (EL2, below kernel addresses)": hypervisor,
            "of host or guest, the trace does not say which (--guest-vmlinux)": unknown[EITHER],
            "outside of the image": unknown[OUTSIDE] - hypervisor,
        }
        parts = ", ".join(f"{counted(count, 'range')} {kind}" for kind, count in kinds.items() if count)
        if unknown[OUTSIDE] > hypervisor:
            return f"{parts}: is this the kernel that ran, and where it ran (--slide, --memory)?"
        if unknown[EITHER]:
            return parts
        return f"{parts}; no kernel of the normal world ran: record one (perf record -e cs_etm//k)"

    def data(self) -> dict[str, Any]:
        """Return the counts for JSON."""
        unknown = [
            {"why": image.why, "image": image.image, "ranges": image.ranges,
             "areas": [[hex(area), count] for area, count in image.areas.items()]}
            for image in self.unknown()
        ]  # fmt: skip
        counts = {"ranges": int(self.runs.sum()), "instructions": self.instructions, "gaps": self.gaps}
        return {**counts, "unknown": unknown, "processes": dict(self._processes.most_common())}

    def _areas(self, chosen: Bool) -> dict[int, int]:
        """Count the chosen ranges by the area of 64 KiB in which they begin, the most frequent first."""
        areas: Counter[int] = Counter()
        rows = np.flatnonzero(chosen)
        for start, count in zip(self._known.table["start"][rows].tolist(), self.runs[rows].tolist(), strict=True):
            areas[start & ~0xFFFF] += count
        return dict(areas.most_common())
