"""What a command could not use of a trace, in a few lines: unknown addresses with counts, and gaps."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from prologue.arrays import I64
from prologue.trace.assign import UNDECIDED, USER
from prologue.trace.form import GAP, Batch
from prologue.trace.intern import RunCounts, run_starts
from prologue.trace.known import KnownRanges
from prologue.trace.steps import lanes

_MOST: Final = 5


class TraceSummary:
    """Counts while a trace is read."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._runs = RunCounts()
        self._gaps = 0
        self._cpus: set[int] = set()

    def add(self, batch: Batch, numbers: I64) -> None:
        """Count a batch."""
        self._runs.add(numbers)
        self._gaps += int((batch.ranges["flags"] & np.uint8(GAP) != 0).sum())
        cpu = lanes(batch.ranges)
        self._cpus.update(cpu[run_starts(cpu)].tolist())

    @property
    def runs(self) -> I64:
        """How often each distinct range ran; shape of the table of known ranges."""
        return self._runs.upto(len(self._known.table))

    @property
    def instructions(self) -> int:
        """Instructions in all ranges, also in those of no image."""
        table = self._known.table
        return int((((table["end"] - table["start"]) >> np.uint64(2)).astype(np.int64) * self.runs).sum())

    @property
    def gaps(self) -> int:
        """Places where what ran before is not known, but for the start of each CPU's trace."""
        return max(self._gaps - len(self._cpus), 0)

    def lines(self) -> list[str]:
        """First what was read, then what could not be used."""
        runs = self.runs
        ranges, distinct = int(runs.sum()), int((runs > 0).sum())
        cpus = "1 CPU" if len(self._cpus) == 1 else f"{len(self._cpus)} CPUs"
        said = [
            f"{ranges:,} {'range' if ranges == 1 else 'ranges'} ({distinct:,} distinct), {self.instructions:,} "
            f"{'instruction' if self.instructions == 1 else 'instructions'}, {cpus}, "
            f"{self.gaps:,} {'gap' if self.gaps == 1 else 'gaps'}"
        ]
        return [*said, *self._unknown()]

    def _unknown(self) -> list[str]:
        table, times = self._known.table, self.runs
        ran = times > 0
        said = []
        user = ran & (table["program"] == USER)
        if user.any():
            said.append(f"{int(times[user].sum()):,} ranges are not a kernel's: not disassembled")
        undecided = ran & (table["program"] == UNDECIDED)
        if undecided.any():
            said.append(
                f"{int(times[undecided].sum()):,} ranges may be of host or guest, and the trace does not say which "
                f"(levels and VMIDs, perf's dso; --host-el, --guest-vmlinux): {self._places(undecided)}"
            )
        for row, program in enumerate(self._known.kernels.programs):
            nowhere = ran & (table["program"] == row) & (table["piece"] < 0)
            if nowhere.any():
                said.append(f"{int(times[nowhere].sum()):,} ranges are not in {program.name}: {self._places(nowhere)}")
        return said

    def _places(self, which: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str:
        """Where ranges are, by areas of 64 KiB, the most frequent first."""
        areas: Counter[int] = Counter()
        rows = np.flatnonzero(which)
        for start, count in zip(self._known.table["start"][rows].tolist(), self.runs[rows].tolist(), strict=True):
            areas[start & ~0xFFFF] += count
        told = [f"{area:#x} ({count:,})" for area, count in areas.most_common(_MOST)]
        return ", ".join(told) + (f" and {len(areas) - _MOST:,} other areas of 64 KiB" if len(areas) > _MOST else "")
