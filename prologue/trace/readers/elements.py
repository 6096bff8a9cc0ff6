"""The reader of elements of OpenCSD's library into ranges, by the same rules as of its text (``opencsd``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from prologue.arrays import I64, U32, U64, Bool
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.trace.coresight.process import ByteCounts, DecoderText, Elements, Failed
from prologue.trace.ranges import (
    AARCH32,
    EXCEPTION,
    GAP,
    LONGEST,
    LOST,
    NO_CPU,
    NO_LEVEL,
    NO_VMID,
    OTHER_WORLD,
    RANGE,
    RETURN,
    UNSURE,
    BatchNames,
    Onward,
    Tally,
    TracedTask,
    TraceRanges,
    add_cycles,
)
from prologue.trace.readers.coverage import PartCoverage
from prologue.trace.readers.decoder_reports import HIGHEST_VMID, OF_IMAGE, DecoderReports, LastRange, SourceState
from prologue.trace.readers.opencsd_lines import BREAKS, read_error
from prologue.trace.readers.return_stack import ReturnStack

# ocsd_gen_trc_elem_t
(_UNKNOWN, _NO_SYNC, _TRACE_ON, _END, _CONTEXT, _RANGE, _NO_PATH, _NO_MEMORY, _NO_ADDRESS, _EXCEPTION, _RETURN,
 _TIMESTAMP, _CYCLES) = range(13)  # fmt: skip
_TRANSACTION: Final = 16
_BREAKS: Final = {
    _UNKNOWN: b"UNKNOWN", _NO_SYNC: b"NO_SYNC", _TRACE_ON: b"TRACE_ON", _END: b"EO_TRACE", _NO_PATH: b"I_RANGE_NOPATH",
    _NO_MEMORY: b"ADDR_NACC", _NO_ADDRESS: b"ADDR_UNKNOWN",
}  # fmt: skip
_OVERFLOW: Final = 1  # trace_on_reason_t
_BEGUN: Final = (1, 2)  # unsync_info_t: the decoder was created, or reset
_BAD_IMAGE: Final = 6  # unsync_info_t, from 1.5.4 on; before, 6 was another reason
_ROLLED_BACK: Final = 3  # trace_memtrans_t
_A64: Final = 2  # ocsd_isa
_WORDS, _HALVES = (0, 2), (1, 3)  # A32 and A64; T32 and ThumbEE
_LINK, _ERET = 1, 3  # ocsd_instr_subtype
_FIRST, _UNKNOWN_CODE = (_NO_SYNC, _TRACE_ON, _END), (_UNKNOWN, _NO_PATH, _NO_MEMORY, _NO_ADDRESS)
_NONSECURE: Final = 1  # ocsd_sec_level
_HAS_CONTEXT, _HAS_VMID, _HAS_LEVEL = 2, 4, 8
_BRANCH, _INDIRECT = 1, 2  # ocsd_instr_type
_EXECUTED: Final = 1  # of flags


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementNaming:
    """The names of ranges for numbers of the trace.

    ``cpu`` returns the CPU of a trace ID, ``time`` ns of ticks, ``task`` the task of a process number at a time (ns).
    ``process_in_vmid``: an element's VMID is CONTEXTIDR_EL2, at every level. ``checks_images``: the library reports
    bad images. ``return_stack``: trace units leave out addresses that their return stack predicts. ``names_idle``:
    process 0 is the idle task, not a register that is never written.
    """

    cpu: Callable[[int], int]
    time: Callable[[int], int]
    task: Callable[[int, int], TracedTask]
    process_in_vmid: bool = False
    checks_images: bool = False
    return_stack: bool = False
    names_idle: bool = False


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
        self.names = names

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
        """Take a message of the library."""
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
        is_range = rows["kind"] == _RANGE
        ranges = np.zeros(np.count_nonzero(is_range), RANGE)
        numbers = np.flatnonzero(np.bincount(ids)).tolist()
        if len(numbers) == 1:
            self._fill_in(rows, ranges, numbers[0])
        else:
            place = np.cumsum(is_range) - 1  # row in ranges of each element of a range
            for number in numbers:
                at = np.flatnonzero(ids == number)
                own = place[at[is_range[at]]]
                part = np.zeros(len(own), RANGE)
                self._fill_in(rows[at], part, number)
                ranges[own] = part
        return ranges if (good := ranges["end"] != 0).all() else ranges[good]

    def _fill_in(self, rows: npt.NDArray[Any], ranges: TraceRanges, number: int) -> None:
        """Fill in the ranges of a trace ID; ``rows`` are its elements.

        Nearly all of these are ranges, so all that is not is taken apart first, in the order that it has.
        """
        cpu = self.naming.cpu(number)
        source = self._sources.setdefault(cpu, SourceState())
        is_range = rows["kind"] == _RANGE
        others = np.flatnonzero(~is_range)
        between = _Between(rows[others], others - np.arange(len(others)), len(ranges))
        # Each other element counts for the first range after it; the last row is for ranges to come.
        flags = np.zeros(len(ranges) + 1, np.uint8)
        flags[0] = source.flags
        self._apply_flags(between, flags, source, cpu)
        starts, ends, counts, isa = (rows[name][is_range] for name in ("start", "end", "value", "isa"))
        ranges["cpu"], ranges["start"], ranges["end"] = cpu, starts, ends
        times = self._times(between, source)
        self._fill_in_contexts(between, times, ranges, source)
        stamps = between.where(_TIMESTAMP)
        ranges["time"] = between.spread(stamps, times)
        source.time = int(times[-1])
        self._fill_in_cycles(between, ranges, source)
        ranges["flags"] |= flags[:-1]
        is_short = isa != _A64
        if is_short.any():
            ranges["flags"][is_short] |= np.uint8(AARCH32)
            wide = ends - starts == 4 * counts.astype(np.uint64)
            ranges["insns"] = np.where(is_short & ~wide, counts, 0)
        if len(ranges):
            last = rows[np.flatnonzero(is_range)[-1]]
            state = int(ranges["flags"][-1]) & (AARCH32 | OTHER_WORLD)
            source.last = (*last[["start", "end"]].tolist(), state, *last[["last_kind", "flags"]].tolist())
        if self.naming.return_stack:
            ranges["flags"] |= self._unsure(rows, source)
        source.flags = int(flags[-1])
        bad = ~_is_possible(starts, ends, counts, isa)
        if bad.any():
            self._leave_out(ranges, bad, source)
        if source.flags & GAP:
            source.last = None

    @staticmethod
    def _unsure(rows: npt.NDArray[Any], source: SourceState) -> npt.NDArray[np.uint8]:
        """Return ``UNSURE`` for each range that the decoder may have reached by a wrong return; see ``ReturnStack``.

        Elements come without their packets, so every return may have been taken from the stack.
        """
        kinds = rows["kind"]
        unsure = np.zeros(int((kinds == _RANGE).sum()), np.uint8)
        if source.calls is None and not np.isin(kinds, _UNKNOWN_CODE).any():
            return unsure
        number = 0
        columns = (rows[name].tolist() for name in ("kind", "value", "last_kind", "last_subkind", "flags"))
        for kind, value, last, subkind, flags in zip(*columns, strict=True):
            calls = source.calls
            if kind in _FIRST:
                source.calls = None
            elif kind in _UNKNOWN_CODE:
                source.calls = calls or ReturnStack()
                source.calls.lose()
            elif calls is not None and kind in (_EXCEPTION, _RETURN):
                calls.interrupt()
            elif calls is not None and kind == _TRANSACTION and value == _ROLLED_BACK:
                calls.lose()
            elif kind == _RANGE:
                if calls is not None:
                    unsure[number] = UNSURE if calls.enter() else 0
                    calls.leave(_tail(last, subkind, flags))
                number += 1
        return unsure

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
        undone = (kinds == _TRANSACTION) & (value == _ROLLED_BACK)
        breaks = np.flatnonzero(np.isin(kinds, list(_BREAKS)) | undone)
        events = np.flatnonzero((kinds == _EXCEPTION) | (kinds == _RETURN))
        last_break = np.full(len(flags), -1, np.int64)
        contexts = between.where(_CONTEXT)
        of_context = (np.searchsorted(contexts, breaks) - 1).tolist()
        for place, segment, known in zip(breaks.tolist(), segments[breaks].tolist(), of_context, strict=True):
            last_break[segment] = place
            flags[segment] = GAP | self._break(rows[place], source, cpu, had_range=segment > 0)
            if kinds[place] == _NO_MEMORY and rows["start"][place] < np.uint64(KERNEL_HALF):
                self._count_process(None if known < 0 else rows[contexts[known]], source, int(rows["start"][place]))
        counts = events > last_break[segments[events]]
        for kind, flag in ((_EXCEPTION, EXCEPTION), (_RETURN, RETURN)):
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
        own = self.names.tasks[task]
        name = own.comm or "that the trace does not name"
        why = self._why_not(own.tid, vaddr) if self._why_not and task else ""
        self._reports.count_kind("of these in processes", f": {name}{why and f' ({why})'}")

    def _break(self, row: npt.NDArray[Any], source: SourceState, cpu: int, *, had_range: bool) -> int:
        """Count an element that leaves a gap; return ``LOST`` if data were lost, otherwise 0."""
        kind, value = int(row["kind"]), int(row["value"])
        if kind == _TRANSACTION:
            self._reports.count_rollback()
            return 0
        failed = source.failed and not had_range
        if kind == _NO_SYNC and value == _BAD_IMAGE and self.naming.checks_images and not failed:
            self._report_image(source, cpu, "bad-program-image")
        begun = kind == _END or (kind == _NO_SYNC and value in _BEGUN)
        if not begun and not (kind == _NO_SYNC and failed):
            self._account.add(BREAKS[_BREAKS[kind]])
        source.failed = False
        return LOST if kind != _TRACE_ON or value == _OVERFLOW else 0

    def _fill_in_contexts(self, between: _Between, times: U64, ranges: TraceRanges, source: SourceState) -> None:
        """Fill in level, VMID, task and world of each range, from the last context before it."""
        contexts = between.where(_CONTEXT)
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
        stamps = between.where(_TIMESTAMP)
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
        counts = between.where(_CYCLES)
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
        own_vmid = vmid if valid & _HAS_VMID and vmid <= HIGHEST_VMID else NO_VMID
        in_vmid = self.naming.process_in_vmid and valid & _HAS_VMID
        process = vmid if in_vmid else context
        is_known = (in_vmid or valid & _HAS_CONTEXT) and (process or self.naming.names_idle)
        return (
            level if valid & _HAS_LEVEL and 0 <= level <= 3 else NO_LEVEL,
            own_vmid,
            self.names.task(self.naming.task(process, time)) if is_known else 0,
            0 if security == _NONSECURE else OTHER_WORLD,
        )

    def _times(self, between: _Between, source: SourceState) -> U64:
        """Return the times (ns) of the timestamps, after the one before them."""
        stamps = between.rows["timestamp"][between.where(_TIMESTAMP)].tolist()
        return np.array([source.time, *map(self.naming.time, stamps)], np.uint64)

    # reports

    def _report_image(self, source: SourceState, cpu: int, why: str) -> None:
        """Report that the decoder refused its image; ``source.last`` ends with the kind and flags of an instruction."""
        last = LastRange()
        if source.last is not None:
            start, end, flags, kind, executed = source.last
            onward = Onward.UNKNOWN
            if not source.flags and kind != _INDIRECT:
                onward = Onward.TARGET if kind == _BRANCH and executed & _EXECUTED else Onward.NEXT
            last = LastRange(start, end, flags, onward)
        self._reports.add_image(source, cpu, why, last)

    def _forget(self) -> None:
        for source in self._sources.values():
            source.forget()


def _is_possible(starts: U64, ends: U64, counts: U32, isa: U32) -> Bool:
    """Return whether ranges can have that number of instructions; shape (n,)."""
    sizes = ends - starts
    good: Bool = (ends > starts) & (sizes < np.uint64(LONGEST))
    words: Bool = (starts & np.uint64(3) == 0) & (sizes == 4 * counts.astype(np.uint64))
    if (isa == _A64).all():
        good &= words
        return good
    halves = (2 * counts.astype(np.uint64) <= sizes) & (sizes <= 4 * counts.astype(np.uint64))
    good &= np.where(np.isin(isa, _WORDS), words, ~np.isin(isa, _HALVES) | halves)
    return good


def _tail(kind: int, subkind: int, flags: int) -> bytes:
    """Describe the last instruction of a range as an element's text does, for ``ReturnStack``."""
    parts = [b"E" if flags & _EXECUTED else b"N", b"iBR" if kind == _INDIRECT else b""]
    return b" ".join([*parts, {_LINK: b"b+link", _ERET: b"eret"}.get(subkind, b"")])


def plain_task(process: int, _time: int) -> TracedTask:
    """Return the task of a process of which the trace has the number only."""
    return TracedTask("", process, process)


def same_number(number: int) -> int:
    """Return the CPU of a trace ID, which stands for it."""
    return number if number >= 0 else NO_CPU
