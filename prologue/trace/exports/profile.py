"""Profiles of the kernel's file: how often each straight run and each branch was, at link-time addresses.

Readers end a range at a branch, and others anywhere, too: a run goes from one branch to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U64, Bool
from prologue.insn.rows import flows
from prologue.live.memory.ranges import TOP
from prologue.live.system.programs import Program
from prologue.trace.exports.formats import ExportSubject
from prologue.trace.path.branching import BL, CALL, CONDITIONAL, ERET, INDIRECT, RET, B
from prologue.trace.path.branching import UNKNOWN as OTHER
from prologue.trace.path.filters import Selection
from prologue.trace.path.known import KnownRanges, PerNumber
from prologue.trace.path.steps import Steps, lanes
from prologue.trace.ranges import EXCEPTION, RETURN, Batch, count_instructions
from prologue.trace.readers.intern import DistinctRows, RunCounts, by_lane
from prologue.words import counted

UNKNOWN, ONWARD, BRANCH, EXCEPTIONAL = range(4)
"""What led to a run: a gap; the next instruction; a branch; an exception or the return from one."""
RUN: Final = np.dtype(
    [
        ("start", "<u8"),
        ("end", "<u8"),  # address after the last instruction
        ("origin", "<u8"),  # address of the last instruction of the run before it
        ("lane", "<i8"),
        ("program", "<i4"),
        ("before", "<i4"),  # program of the run before it
        ("entry", "u1"),
    ],
    align=True,
)
_ALWAYS: Final = (B, BL, INDIRECT, CALL, RET, ERET)
_BRANCHES: Final = (B, BL, CONDITIONAL, INDIRECT, CALL, RET, OTHER)
Runs = npt.NDArray[Any]
"""An array of ``RUN``, shape (n,)."""


_WORD: Final = np.uint64(4)


class RunJoiner:
    """Joins ranges that go on from one to the next: readers end a range at a branch, and others anywhere, too."""

    def __init__(self, known: KnownRanges) -> None:
        self._known = known
        self._steps = Steps()
        self._kinds = PerNumber(self._kinds_of, np.uint8)
        self._open: dict[int, Runs] = {}  # of each lane, its last run: shape (1,)

    def take(self, batch: Batch, numbers: I64) -> Iterator[Runs]:
        """Give the runs that a batch ends, an array for each lane, in the lane's order."""
        ranges = batch.ranges
        taken = self._steps.take(ranges, numbers)
        entry = np.zeros(len(ranges), np.uint8)
        entry[taken.rows] = self._kinds.up_to(len(self._steps.table))[taken.numbers]
        before = self._known.table[self._steps.table["before"][taken.numbers]]
        origin, program = np.zeros(len(ranges), np.uint64), np.full(len(ranges), -1, np.int64)
        origin[taken.rows], program[taken.rows] = before["end"] - np.uint64(4), before["program"]
        row_lanes, order = lanes(ranges), by_lane(lanes(ranges))
        for lane in np.unique(row_lanes[order]).tolist():
            rows = order[row_lanes[order] == lane]
            heads = np.flatnonzero(entry[rows] != ONWARD)
            runs = np.zeros(len(heads), RUN)
            first = rows[heads]
            runs["start"], runs["lane"], runs["entry"] = ranges["start"][first], lane, entry[first]
            runs["origin"], runs["before"] = origin[first], program[first]
            runs["program"] = self._known.table["program"][numbers[first]]
            if lane in self._open:
                runs, heads = np.concatenate([self._open[lane], runs]), np.append(-1, heads)
            stops = np.append(heads[1:], len(rows)) - 1
            moved = stops >= 0  # the open run goes on into this batch
            runs["end"][moved] = ranges["end"][rows[stops[moved]]]
            self._open[lane] = runs[-1:]
            yield runs[:-1]

    def close(self) -> Iterator[Runs]:
        """Give the last run of each lane."""
        yield from self._open.values()

    def _kinds_of(self, numbers: I64) -> npt.NDArray[np.uint8]:
        table, steps = self._known.table, self._steps.table[numbers]
        before, after = table[steps["before"]], table[steps["after"]]
        flow = flows(self._known.last_words(steps["before"]))
        in_text = before["piece"] >= 0  # of other code the words are not known
        onward = (before["end"] == after["start"]) & (before["program"] == after["program"])
        onward &= ~(in_text & np.isin(flow, _ALWAYS))
        vectors = np.concatenate([program.vectors for program in self._known.kernels.programs])
        exceptional = (steps["flags"] & np.uint8(EXCEPTION | RETURN) != 0) | np.isin(after["start"], vectors)
        exceptional |= in_text & ~onward & ~np.isin(flow, _BRANCHES)
        kinds = np.where(onward, ONWARD, BRANCH)
        kinds[onward & (before["piece"] != after["piece"])] = UNKNOWN  # into, or out of, what no image has
        return np.where(exceptional, EXCEPTIONAL, kinds).astype(np.uint8)


class _Pairs:
    """Counts pairs of addresses; memory grows with distinct ones only."""

    def __init__(self) -> None:
        self._pairs, self._counts = DistinctRows([("first", "<u8"), ("second", "<u8")]), RunCounts()

    def add(self, first: U64, second: U64) -> None:
        self._counts.add(self._pairs.numbers(first, second))

    def counted(self) -> list[tuple[int, int, int]]:
        """Return the two addresses and how often they were, ascending."""
        order = np.lexsort((self._pairs.table["second"], self._pairs.table["first"]))
        pairs, counts = self._pairs.table[order], self._counts.up_to(len(order))
        return list(zip(pairs["first"].tolist(), pairs["second"].tolist(), counts[order].tolist(), strict=True))


class AutofdoExport:
    """AutoFDO's text profile, which ``create_llvm_prof --profiler=text`` reads: counted ranges, addresses, branches.

    google/autofdo: sample_reader.h. Addresses are relative to the first segment that is loaded, a range's end is the
    address of its last instruction, and numbers are hexadecimal without 0x, except counts. What is not in the host's
    vmlinux (modules, guests, processes) is counted and left out.
    """

    def __init__(self, subject: ExportSubject, stream: BinaryIO) -> None:
        self._stream, self._program = stream, subject.known.kernels.host
        self._joiner, self._selection = RunJoiner(subject.known), Selection(apart=True)
        self._runs, self._branches = _Pairs(), _Pairs()
        self._elsewhere = 0  # instructions

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """See ``Export``; a range that is not kept is a gap."""
        chosen, chosen_numbers = self._selection.take(batch, numbers, keep)
        self._elsewhere += int(count_instructions(chosen.ranges).sum())  # T32's are not of four bytes each
        for runs in self._joiner.take(chosen, chosen_numbers):
            self._add(runs)

    def finish(self) -> list[str]:
        """See ``Export``."""
        for runs in self._joiner.close():
            self._add(runs)
        self._write()
        count = self._elsewhere
        note = f"{counted(count, 'instruction')} not of {self._program.name} left out: such a file is of one image"
        return [note] if count else []

    def _add(self, runs: Runs) -> None:
        starts, in_file = linked_addresses(self._program, runs["start"], runs["end"])
        in_file &= runs["program"] == 0
        sizes = (runs["end"] - runs["start"])[in_file]
        self._elsewhere -= int((sizes // _WORD).sum())
        self._runs.add(starts[in_file], starts[in_file] + sizes - _WORD)
        origins, known = linked_addresses(self._program, runs["origin"], runs["origin"] + _WORD)
        known &= in_file & (runs["before"] == 0) & (runs["entry"] == BRANCH)
        self._branches.add(origins[known], starts[known])

    def _write(self) -> None:
        segments = self._program.kernel.image.segments
        base = segments[0].vaddr if segments else 0
        # After the runs, 0 sampled addresses.
        for pairs, mark, after in ((self._runs.counted(), "-", "0\n"), (self._branches.counted(), "->", "")):
            lines = (f"{first - base:x}{mark}{second - base:x}:{count}\n" for first, second, count in pairs)
            self._stream.write(f"{len(pairs)}\n{''.join(lines)}{after}".encode())


def linked_addresses(program: Program, starts: U64, ends: U64) -> tuple[U64, Bool]:
    """Return where the kernel's file has each range, and whether it has it; shape of ``starts``."""
    rows = program.piece_of(starts, ends)
    slides = np.array([piece.owner.slide & TOP for piece in program.pieces] or [0], np.uint64)
    in_kernel = np.array([piece.owner.image is program.kernel.image for piece in program.pieces] or [False])
    return starts - slides[rows], (rows >= 0) & in_kernel[rows]
