"""The instructions that a trace's kernel executed one after the other, in windows of equal length."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import U32, U64, Bool
from prologue.errors import UsageError
from prologue.trace.path.check import ImageCheck
from prologue.trace.path.kernel_images import HostImage, open_kernels
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.steps import lanes
from prologue.trace.ranges import AARCH32, SAMPLE, count_instructions
from prologue.trace.readers.sources import open_trace
from prologue.trace.views.stats import first_slots

WINDOW: Final = 10_000  # instructions
WINDOWS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedWindow:
    """Instructions that a CPU executed one after the other; ``slots`` are 1 and 2 at those of patch sites, else 0.

    Shapes (n,). What ran between two of them outside of the kernel is left out.
    """

    words: U32
    slots: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedCode:
    """Windows of a trace, evenly spaced, and counts of the whole: all instructions, the kernel's, and first slots.

    ``left_out`` instructions cannot have run with this text, and are in no other number; ``impossible`` steps say that
    some of it is not what ran.
    """

    windows: tuple[ExecutedWindow, ...]
    instructions: int
    of_kernel: int
    prologues: int
    left_out: int
    impossible: int

    @property
    def share(self) -> float:
        """First slots among all instructions."""
        return self.prologues / self.instructions


@dataclass(slots=True, kw_only=True)
class _Windows:
    """Windows that are filled one after the other; every second one is dropped when there are too many."""

    kept: list[tuple[U64, U32]] = field(default_factory=list)
    every: int = 1
    met: int = 0
    _parts: dict[int, list[tuple[U64, U32]]] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)

    def add(self, lane: int, vaddrs: U64, words: U32) -> None:
        """Add instructions of a CPU."""
        parts = self._parts.setdefault(lane, [])
        parts.append((vaddrs, words))
        self._sizes[lane] = self._sizes.get(lane, 0) + len(words)
        if self._sizes[lane] < WINDOW:
            return
        vaddrs, words = (np.concatenate(column) for column in zip(*parts, strict=True))
        whole = len(words) // WINDOW * WINDOW
        for first in range(0, whole, WINDOW):
            self._keep(vaddrs[first : first + WINDOW], words[first : first + WINDOW])
        self._parts[lane], self._sizes[lane] = [(vaddrs[whole:], words[whole:])], len(words) - whole

    def _keep(self, vaddrs: U64, words: U32) -> None:
        if self.met % self.every == 0:
            self.kept.append((vaddrs.copy(), words.copy()))  # not a batch's whole array with it
            if len(self.kept) == 2 * WINDOWS:
                self.kept = self.kept[::2]
                self.every *= 2
        self.met += 1


def read_executed_code(source: str, vmlinux: Path, memory: str | None = None) -> ExecutedCode:
    """Read a trace with the text of a vmlinux, or of memory.

    Raises:
        InputError: a file cannot be read, or does not belong to the others.
        UsageError: the kernel has no patch sites, or executed less than a window.

    """
    with open_trace(source) as trace:
        kernels = open_kernels(trace, HostImage(vmlinux=vmlinux, memory=memory), ())
        known, host = KnownRanges(kernels), kernels.host
        first = first_slots(host)
        if first is None:
            raise UsageError(f"{vmlinux}: has no patch sites, so nothing of it can be expected")
        firsts, windows, instructions, of_kernel, prologues = np.sort(first), _Windows(), 0, 0, 0
        check = ImageCheck(known, trace)
        for batch, numbers in check.executed(trace):
            table, flags = known.table[numbers], batch.ranges["flags"]
            ran: Bool = flags & np.uint8(SAMPLE) == 0
            own: Bool = ran & (table["program"] == 0) & (table["piece"] >= 0) & (flags & np.uint8(AARCH32) == 0)
            instructions += int(count_instructions(batch.ranges[ran]).sum())
            lane = lanes(batch.ranges)
            for cpu in np.unique(lane[own]).tolist():
                vaddrs, words, _ = known.code(numbers[own & (lane == cpu)])
                of_kernel += len(words)
                prologues += int(np.isin(vaddrs, firsts).sum())
                windows.add(cpu, vaddrs, words)
    if not windows.kept:
        rest = f", and {check.left_out[1]:,} are left out, since the text is not what ran" if check.left_out[1] else ""
        raise UsageError(
            f"{source}: the kernel executed {of_kernel:,} instructions{rest}: {WINDOW:,} at least are needed"
        )
    spread = np.linspace(0, len(windows.kept) - 1, min(len(windows.kept), WINDOWS)).round().astype(int).tolist()
    kept = [windows.kept[k] for k in spread]
    made = tuple(ExecutedWindow(words=words, slots=_slots(vaddrs, firsts)) for vaddrs, words in kept)
    return ExecutedCode(
        windows=made,
        instructions=instructions,
        of_kernel=of_kernel,
        prologues=prologues,
        left_out=check.left_out[1],
        impossible=check.impossible,
    )


def _slots(vaddrs: U64, firsts: U64) -> npt.NDArray[np.uint8]:
    slots = np.zeros(len(vaddrs), np.uint8)
    slots[np.isin(vaddrs - np.uint64(4), firsts)] = 2
    slots[np.isin(vaddrs, firsts)] = 1
    return slots
