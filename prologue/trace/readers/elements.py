"""The reader of elements of OpenCSD into ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64, Bool
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.trace.coresight import elements as ocsd
from prologue.trace.coresight.elements import ElementKind, Elements
from prologue.trace.coresight.process import ByteCounts, DecoderText, Failed
from prologue.trace.ranges import (
    AARCH32,
    EXCEPTION,
    GAP,
    LONGEST,
    LOST,
    NO_LEVEL,
    NO_VMID,
    OTHER_WORLD,
    RANGE,
    RETURN,
    BadImage,
    BatchNames,
    Onward,
    Tally,
    TraceRanges,
    add_cycles,
)
from prologue.trace.readers.coverage import PartCoverage
from prologue.trace.readers.decoder_reports import (
    HIGHEST_VMID,
    OF_IMAGE,
    DecoderReports,
    ElementNaming,
    SourceState,
    read_error,
)
from prologue.trace.readers.return_stack import find_unsure

_BREAKS: Final = {
    ElementKind.TRACE_ON: "places where tracing began (trace on)",
    ElementKind.NO_SYNC: "places without synchronisation",
    ElementKind.ADDR_NACC: "places where the decoder had no memory to follow the program",
    ElementKind.UNKNOWN: "unknown elements of the decoder: a gap",
    ElementKind.I_RANGE_NOPATH: "ranges whose path the decoder does not know: a gap",
    ElementKind.ADDR_UNKNOWN: "places where the decoder did not know the address",
}
"""Elements that leave a gap, with their names in the summary. The end of a trace leaves one, too, and is no loss."""


@dataclass(frozen=True, slots=True)
class _Between:
    """Elements other than ranges, in their order; ``segments`` are the numbers of ranges before each."""

    rows: npt.NDArray[Any]
    segments: I64
    count: int  # of all ranges

    def where(self, kind: int) -> I64:
        """Return the places in ``rows`` of a kind, ascending."""
        return np.flatnonzero(self.rows["kind"] == kind)

    def spread(self, places: I64, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a value for each range: that of the last of ``places`` before it; the first is of the time before."""
        if not len(places):
            return values
        return np.repeat(values, np.diff(self.segments[places], prepend=0, append=self.count))


class ElementReader:
    """The reader of elements, with the state of each CPU between blocks of them."""

    def __init__(
        self, account: Tally, naming: ElementNaming, names: BatchNames, why_not: Callable[[int, int], str] | None
    ) -> None:
        """Start without elements. ``why_not`` explains why code of a thread is not known, at an address."""
        self._account, self.naming, self._why_not = account, naming, why_not
        self._sources: dict[int, SourceState] = {}
        self._reports = DecoderReports(account)
        self._coverage: PartCoverage | None = None
        self._names = names

    def begin(self, coverage: PartCoverage) -> None:
        """Start a recording: nothing is known of what ran before it, nor when."""
        self.end()
        self._sources.clear()
        self._coverage = coverage

    def counted(self, counts: ByteCounts) -> None:
        """Take the counts of bytes that were decoded by now."""
        if self._coverage is not None:
            self._coverage.take(counts)

    def failed(self, failure: Failed) -> None:
        """Note that decoding of a recording ended in the middle: a gap on each of its CPUs."""
        self._reports.count_kind("recordings whose decoding ended early", f": {failure.why}")
        self.end(failed=True)
        self._forget()

    def end(self, *, failed: bool = False) -> None:
        """End a recording, if one was begun; ``failed``: before its end."""
        if self._coverage is not None:
            self._reports.count_undescribed(self._coverage.end(self._account, failed=failed))
        self._coverage = None

    def text(self, text: DecoderText) -> None:
        """Take a message of the library: an error leaves a gap on its CPU, or on all if it names no trace ID."""
        error = read_error(text.line.strip())
        if error is None:
            return
        source = None if error.source is None else self._sources.get(self.naming.cpu(error.source))
        line = f"{error.name}, {error.message}" if error.message else error.name
        where = "" if error.source is None else f" on trace ID {error.source:#x}"
        self._reports.count_kind("errors of the decoder", f"{where}: {line}")
        if error.source is None:
            self._forget()
            return
        if self._coverage is not None and error.offset is not None:
            self._coverage.lost_sync(error.source, error.offset)
        if error.name in OF_IMAGE:
            self._report_image(source or SourceState(), self.naming.cpu(error.source), line)
        if source is not None:
            source.flags, source.last, source.failed = GAP | LOST, None, True

    def ranges(self, elements: Elements) -> TraceRanges:
        """Return the ranges among some elements, in their order."""
        rows, ids = elements.rows, elements.ids
        is_range = rows["kind"] == ElementKind.INSTR_RANGE
        ranges = np.zeros(np.count_nonzero(is_range), RANGE)
        numbers = np.flatnonzero(np.bincount(ids)).tolist()
        if len(numbers) == 1:
            self._fill_in(rows, ranges, numbers[0])
        else:
            place = np.cumsum(is_range) - 1  # row in ranges of each element of a range
            for number in numbers:
                at = np.flatnonzero(ids == number)
                range_rows = place[at[is_range[at]]]
                part = np.zeros(len(range_rows), RANGE)
                self._fill_in(rows[at], part, number)
                ranges[range_rows] = part
        return ranges if (good := ranges["end"] != 0).all() else ranges[good]

    def _fill_in(self, rows: npt.NDArray[Any], ranges: TraceRanges, number: int) -> None:
        """Fill in the ranges of a trace ID; ``rows`` are its elements.

        Nearly all of these are ranges, so all that is not is taken apart first, in the order that it has.
        """
        cpu = self.naming.cpu(number)
        source = self._sources.setdefault(cpu, SourceState())
        is_range = rows["kind"] == ElementKind.INSTR_RANGE
        others = np.flatnonzero(~is_range)
        between = _Between(rows[others], others - np.arange(len(others)), len(ranges))
        # Each other element counts for the first range after it; the last row is for ranges to come.
        flags = np.zeros(len(ranges) + 1, np.uint8)
        flags[0] = source.flags
        self._apply_flags(between, flags, source, cpu)
        starts, ends, counts, isa = (rows[name][is_range] for name in ("start", "end", "value", "isa"))
        ranges["cpu"], ranges["start"], ranges["end"] = cpu, starts, ends
        stamps = between.where(ElementKind.TIMESTAMP)
        ticks = between.rows["timestamp"][stamps].tolist()
        times = np.array([source.time, *map(self.naming.time, ticks)], np.uint64)  # ns; the first is of before
        self._fill_in_contexts(between, times, ranges, source)
        ranges["time"] = between.spread(stamps, times)
        source.time = int(times[-1])
        self._fill_in_cycles(between, ranges, source)
        ranges["flags"] |= flags[:-1]
        is_short = isa != ocsd.A64
        if is_short.any():
            ranges["flags"][is_short] |= np.uint8(AARCH32)
            wide = ends - starts == 4 * counts.astype(np.uint64)
            ranges["insns"] = np.where(is_short & ~wide, counts, 0)
        if len(ranges):
            last = rows[np.flatnonzero(is_range)[-1]]
            state = int(ranges["flags"][-1]) & (AARCH32 | OTHER_WORLD)
            start, end, kind, executed = last[["start", "end", "last_kind", "flags"]].tolist()
            source.last = start, end, state, kind, executed
        if self.naming.return_stack:
            unsure, source.calls = find_unsure(rows, source.calls)
            ranges["flags"] |= unsure
        source.flags = int(flags[-1])
        bad = ~_is_possible(starts, ends, counts, isa)
        if bad.any():
            self._leave_out(ranges, bad, source)
        if source.flags & GAP:
            source.last = None

    def _leave_out(self, ranges: TraceRanges, bad: Bool, source: SourceState) -> None:
        """Drop ranges that cannot be, by damage in the library or the pipe; the next range has a gap before it."""
        self._account.add("ranges that cannot be: a gap", int(bad.sum()))
        ranges["end"][bad] = 0
        ranges["flags"][1:][bad[:-1]] |= np.uint8(GAP)
        if bad[-1]:
            source.flags |= GAP

    def _apply_flags(self, between: _Between, flags: npt.NDArray[np.uint8], source: SourceState, cpu: int) -> None:
        """Set flags of exceptions, returns from them, and gaps; a gap clears the flags that came before it."""
        rows, segments = between.rows, between.segments
        kinds, value = rows["kind"], rows["value"]
        undone = (kinds == ElementKind.MEMTRANS) & (value == ocsd.ROLLED_BACK)
        breaks = np.flatnonzero(np.isin(kinds, [*_BREAKS, ElementKind.EO_TRACE]) | undone)
        events = np.flatnonzero((kinds == ElementKind.EXCEPTION) | (kinds == ElementKind.EXCEPTION_RET))
        last_break = np.full(len(flags), -1, np.int64)
        contexts = between.where(ElementKind.PE_CONTEXT)
        of_context = (np.searchsorted(contexts, breaks) - 1).tolist()
        for place, segment, known in zip(breaks.tolist(), segments[breaks].tolist(), of_context, strict=True):
            last_break[segment] = place
            flags[segment] = GAP | self._break(rows[place], source, cpu, had_range=segment > 0)
            if kinds[place] == ElementKind.ADDR_NACC and rows["start"][place] < np.uint64(KERNEL_HALF):
                self._count_process(None if known < 0 else rows[contexts[known]], source, int(rows["start"][place]))
        counts = events > last_break[segments[events]]
        for kind, flag in ((ElementKind.EXCEPTION, EXCEPTION), (ElementKind.EXCEPTION_RET, RETURN)):
            flags[segments[events[counts & (kinds[events] == kind)]]] |= np.uint8(flag)
        if len(flags) > 1:
            source.failed = False

    def _count_process(self, context: npt.NDArray[Any] | None, source: SourceState, vaddr: int) -> None:
        """Count a process without text by its name and file; ``context`` is the last of its CPU."""
        level, task = source.level, source.task
        if context is not None:
            fields = context[["security", "level", "context", "vmid", "valid"]].tolist()
            level, _, task, _ = self._context(fields, source.time)
        if level != 0:
            return
        process = self._names.tasks[task]
        name = process.comm or "that the trace does not name"
        why = self._why_not(process.tid, vaddr) if self._why_not and task else ""
        self._reports.count_kind("of these in processes", f": {name}{why and f' ({why})'}")

    def _break(self, row: npt.NDArray[Any], source: SourceState, cpu: int, *, had_range: bool) -> int:
        """Count an element that leaves a gap; return ``LOST`` if data were lost, otherwise 0."""
        kind, value = int(row["kind"]), int(row["value"])
        if kind == ElementKind.MEMTRANS:
            self._account.add(
                "transactions that failed and were rolled back: a gap",
                singular="transaction that failed and was rolled back: a gap",
            )
            return 0
        failed = source.failed and not had_range
        if kind == ElementKind.NO_SYNC and value == ocsd.BAD_IMAGE and self.naming.checks_images and not failed:
            self._report_image(source, cpu, "bad-program-image")
        is_loss = kind != ElementKind.EO_TRACE and (
            kind != ElementKind.NO_SYNC or not (failed or value in (ocsd.CREATED, ocsd.RESET))
        )
        if is_loss:
            self._account.add(_BREAKS[ElementKind(kind)])
        source.failed = False
        return LOST if kind != ElementKind.TRACE_ON or value == ocsd.OVERFLOW else 0

    def _fill_in_contexts(self, between: _Between, times: U64, ranges: TraceRanges, source: SourceState) -> None:
        """Fill in level, VMID, task and world of each range, from the last context before it."""
        contexts = between.where(ElementKind.PE_CONTEXT)
        known = [(source.level, source.vmid, source.task, source.world)]
        fields = between.rows[["security", "level", "context", "vmid", "valid"]][contexts].tolist()
        when = self._times_of(contexts, between, times).tolist()
        known += [self._context(context, time) for context, time in zip(fields, when, strict=True)]
        source.level, source.vmid, source.task, source.world = known[-1]
        levels, vmids, tasks, worlds = np.array(known, np.int64).T
        ranges["level"] = between.spread(contexts, levels)
        ranges["vmid"] = between.spread(contexts, vmids)
        ranges["task"] = between.spread(contexts, tasks)
        ranges["flags"] |= between.spread(contexts, worlds.astype(np.uint8))

    @staticmethod
    def _times_of(contexts: I64, between: _Between, times: U64) -> U64:
        """Return the latest time that each context may be of.

        A trace unit writes the timestamp after it. One that comes after a range, too, counts if there is no other.
        """
        stamps = between.where(ElementKind.TIMESTAMP)
        after = np.searchsorted(stamps, contexts)
        follows = after < len(stamps)
        same = between.segments[stamps[after[follows]]] == between.segments[contexts[follows]]
        follows[follows] = same | (times[after[follows]] == 0)
        last = times[after + follows]
        latest: U64 = np.maximum(times[after], last - (last != 0).astype(np.uint64))  # what is of ``last`` came later
        return latest

    @staticmethod
    def _fill_in_cycles(between: _Between, ranges: TraceRanges, source: SourceState) -> None:
        """Fill in the cycles that were counted between a range and the count before; the last may wait for a range."""
        counts = between.where(ElementKind.CYCLE_COUNT)
        if not len(counts) and not source.cycles:
            return
        cycles = {0: source.cycles}
        for segment, count in zip(
            between.segments[counts].tolist(), between.rows["cycles"][counts].tolist(), strict=True
        ):
            cycles[segment] = add_cycles(cycles.get(segment, 0), count)
        source.cycles = cycles.pop(len(ranges), 0)
        ranges["cycles"][list(cycles)] = list(cycles.values())

    def _context(self, fields: tuple[int, int, int, int, int], time: int) -> tuple[int, int, int, int]:
        security, level, context, vmid, valid = fields
        own_vmid = vmid if valid & ocsd.HAS_VMID and vmid <= HIGHEST_VMID else NO_VMID
        in_vmid = self.naming.process_in_vmid and valid & ocsd.HAS_VMID
        process = vmid if in_vmid else context
        is_known = (in_vmid or valid & ocsd.HAS_CONTEXT) and (process or self.naming.names_idle)
        return (
            level if valid & ocsd.HAS_LEVEL and 0 <= level <= 3 else NO_LEVEL,
            own_vmid,
            self._names.task(self.naming.task(process, time)) if is_known else 0,
            0 if security == ocsd.NONSECURE else OTHER_WORLD,
        )

    # reports

    def _report_image(self, source: SourceState, cpu: int, why: str) -> None:
        """Report that the decoder refused its image: that it cannot be what ran."""
        if source.calls is not None and source.calls.may_be_astray:
            self._account.add(
                "reports of the decoder on its image, after a return that it may have followed wrongly: not judged"
            )
            return
        start, end, flags, kind, executed = source.last or (0, 0, 0, ocsd.INDIRECT, 0)
        onward = Onward.UNKNOWN
        if not source.flags and kind != ocsd.INDIRECT:
            onward = Onward.TARGET if kind == ocsd.BRANCH and executed & ocsd.EXECUTED else Onward.NEXT
        bad = BadImage(
            why=why,
            start=start,
            end=end,
            flags=flags & AARCH32 | source.world,
            level=source.level,
            vmid=source.vmid,
            onward=onward,
        )
        self._account.report(bad, cpu, source.time)

    def _forget(self) -> None:
        """Drop what is known of each CPU, which lost input may have changed."""
        for source in self._sources.values():
            source.forget()


def _is_possible(starts: U64, ends: U64, counts: U32, isa: U32) -> Bool:
    """Return whether ranges can have that number of instructions; shape (n,)."""
    sizes = ends - starts
    good: Bool = (ends > starts) & (sizes < np.uint64(LONGEST))
    words: Bool = (starts & np.uint64(3) == 0) & (sizes == 4 * counts.astype(np.uint64))
    if (isa == ocsd.A64).all():
        good &= words
        return good
    halves = (2 * counts.astype(np.uint64) <= sizes) & (sizes <= 4 * counts.astype(np.uint64))
    good &= np.where(np.isin(isa, (ocsd.A32, ocsd.A64)), words, ~np.isin(isa, (ocsd.T32, ocsd.THUMBEE)) | halves)
    return good
