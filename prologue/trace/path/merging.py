"""Merging of several traces by time: one of a host, and others of its guests, each with its own clock and CPUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from prologue.arrays import U64
from prologue.errors import InputError, UsageError
from prologue.live.memory.ranges import KERNEL_HALF
from prologue.trace.path.assign import NESTED, guest_names
from prologue.trace.ranges import Batch, BatchNames, Tally, TraceRanges, new_ranges, shift_times
from prologue.trace.readers.decoders import common
from prologue.trace.readers.opencsd import Counter
from prologue.trace.readers.recording import RecordingHeader
from prologue.trace.readers.sources import Trace, open_trace

_EVER: Final = (1 << 64) - 1
_UNTIMED: Final = 1 << 20  # ranges before the first time of a trace


class GuestTrace(NamedTuple):
    """A trace of one guest: its number (a VMID, or the process in perf's names), and the ns that its clock lags.

    ``recorded``: a VMID in it is of a guest of that guest, as in recordings.
    """

    name: str
    number: int
    behind: int
    recorded: bool = False


@contextmanager
def open_traces(
    names: Sequence[str], guests: Sequence[GuestTrace], counter: Counter | None, *, needs_times: bool
) -> Iterator[Trace]:
    """Open traces of one machine one after the other, and merge traces of its guests into them.

    ``counter``: see ``read_opencsd``. ``needs_times``: the trace will be compared with times of another clock.

    Raises:
        InputError: a trace cannot be opened, or is damaged from the start; its batches raise it, too.
        UsageError: traces that cannot be read together, or a counter for traces that have ns.

    """
    with ExitStack() as stack:
        trace = stack.enter_context(open_trace(names[0], None, counter))
        more = [stack.enter_context(open_trace(name, trace.account, counter)) for name in names[1:]]
        if more:
            for part in (trace, *more):
                _require_no_decoding(part)
            trace = join_traces([trace, *more])
        kinds, merging = {trace.kind}, []
        for own in guests:
            guest = stack.enter_context(open_trace(own.name, trace.account.apart(), counter))
            merging.append((timed(guest), own._replace(recorded=guest.header is not None)))
            _require_no_decoding(guest)
            trace.guests.append((own.number, guest))
            kinds.add(guest.kind)
            if guest.kind == "perf":  # perf's text marks no exceptions
                trace.kind = guest.kind
        if merging:
            trace.batches = merge(timed(trace), merging)
        if counter is not None and kinds.isdisjoint(("opencsd", "coresight")):
            raise UsageError("--timestamps is for what OpenCSD decodes: the times of other traces are ns")
        if counter is None and "opencsd" in kinds and (guests or needs_times):
            trace.account.add("trace of OpenCSD whose timestamps are taken as ns of that clock: see --timestamps")
        yield trace


def _require_no_decoding(trace: Trace) -> None:
    """Refuse a trace that has to be decoded: each decoder follows a program of its own."""
    if trace.decoded is not None:
        raise UsageError(f"{trace.name}: perf.data and snapshots are read one at a time, and without --guest-trace")


def merge(host: Iterator[Batch], guests: Sequence[tuple[Iterator[Batch], GuestTrace]]) -> Iterator[Batch]:
    """Yield all ranges in the order of time, as far as each trace is in that order; each CPU's order stays.

    Ranges of a guest's trace get its number as VMID, and names with that number. Only ranges of its own guests are
    named ``NESTED``.
    """
    names = BatchNames()
    sources = [_Source(host, 0, None, names)]
    sources += [_Source(batches, row, guest, names) for row, (batches, guest) in enumerate(guests, 1)]
    while True:
        waiting = [source for source in sources if source.fill()]
        if not waiting:
            return
        # Up to this time every trace was read.
        limit = min(int(source.times[-1]) for source in waiting)
        parts = [source.take(limit) for source in waiting]
        ranges = np.concatenate([part[0] for part in parts])
        order = np.argsort(np.concatenate([part[1] for part in parts]), kind="stable")
        yield Batch(ranges[order], names.tasks, names.dsos)


def timed(trace: Trace) -> Iterator[Batch]:
    """Yield the batches of a trace that is to be merged by its times.

    Raises:
        InputError: it has no times, or they are no clock's.

    """
    if trace.header is not None and not trace.header.clocked:
        raise InputError("cannot be merged with others by time: its times are instructions", path=trace.name)
    return _timed(trace.batches, trace.name, trace.account)


def _timed(batches: Iterator[Batch], name: str, account: Tally) -> Iterator[Batch]:
    """Hold ranges back until the first time: a trace without times has no place among others."""
    held: list[Batch] = []
    count, begun = 0, False
    for batch in batches:
        there = int((batch.ranges["time"] != 0).sum())
        begun |= there > 0
        account.add("ranges without a time, among those of other traces", len(batch.ranges) - there)
        if begun:
            yield from held
            held = []
            yield batch
            continue
        held.append(batch)
        count += len(batch.ranges)
        if count > _UNTIMED:
            break
    if held:
        have = "it has" if count <= _UNTIMED else f"its first {count:,} ranges have"
        raise InputError(
            f"cannot be merged with others by time: {have} no times (time in -F of perf script; timestamps)", path=name
        )


def join_traces(traces: Sequence[Trace]) -> Trace:
    """Join traces of one machine, one after the other: each begins with a gap on every CPU.

    Raises:
        InputError: they are of several kinds, or recordings of several boots or kernels.

    """
    first, kept = traces[0], traces[0].header
    for trace in traces[1:]:
        if trace.kind != first.kind:
            raise InputError(f"is of another kind ({trace.kind}) than {first.name} ({first.kind})", path=trace.name)
        if kept is not None and trace.header is not None:
            kept = _common(kept, trace.header, trace.name, first.name)
    name = ", ".join(trace.name for trace in traces)
    return Trace(
        name=name,
        kind=first.kind,
        batches=_chained([trace.batches for trace in traces]),
        account=first.account,
        header=kept,
        decoder=None if first.decoder is None else common([trace.decoder or first.decoder for trace in traces]),
    )


def _common(kept: RecordingHeader, header: RecordingHeader, name: str, first: str) -> RecordingHeader:
    if header.build_id and not kept.may_be_of(header.build_id.hex()):
        raise InputError(f"was recorded of another kernel than {first}: build-ids differ", path=name)
    if None not in (kept.slide, header.slide) and kept.slide != header.slide:
        raise InputError(f"was recorded of another boot than {first}: slides differ", path=name)
    slide = header.slide if kept.slide is None else kept.slide
    clocked = kept.clocked and header.clocked
    return replace(kept, build_id=kept.build_id or header.build_id, slide=slide, clocked=clocked)


def _chained(parts: Sequence[Iterator[Batch]]) -> Iterator[Batch]:
    names = BatchNames()
    for batches in parts:
        source = _Source(batches, 0, None, names)
        while source.fill():
            yield Batch(source.take(_EVER)[0], names.tasks, names.dsos)


class _Source:
    def __init__(self, batches: Iterator[Batch], row: int, guest: GuestTrace | None, names: BatchNames) -> None:
        self._batches, self._row, self._guest, self._names = batches, row, guest, names
        self._ranges: TraceRanges = new_ranges(0)
        self._highest = 0
        self._task_rows, self._dso_rows = list[int](), list[tuple[int, int]]()  # below and from KERNEL_HALF on
        self.times: U64 = np.zeros(0, np.uint64)

    def fill(self) -> bool:
        """Read ranges if none are left; tell whether there are any."""
        while not len(self._ranges):
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._ranges = self._own(batch)
            # A trace may not be in the order of time: a late range counts as of the latest time before it.
            self.times = np.maximum(np.maximum.accumulate(self._ranges["time"]), np.uint64(self._highest))
            self._highest = int(self.times[-1]) if len(self.times) else self._highest
        return True

    def take(self, limit: int) -> tuple[TraceRanges, U64]:
        """Return the ranges up to a time, and their times."""
        count = int(np.searchsorted(self.times, np.uint64(limit), side="right"))
        ranges, times = self._ranges[:count], self.times[:count]
        self._ranges, self.times = self._ranges[count:], self.times[count:]
        return ranges, times

    def _own(self, batch: Batch) -> TraceRanges:
        """Return the ranges of a batch with rows of all traces' names, by the first trace's clock."""
        self._task_rows += [self._names.task(task) for task in batch.tasks[len(self._task_rows) :]]
        for name in batch.dsos[len(self._dso_rows) :]:
            low, high = (name, name) if self._guest is None else guest_names(name, self._guest.number)
            self._dso_rows.append((self._names.dso(low), self._names.dso(high)))
        ranges = batch.ranges.copy()
        ranges["task"] = np.array(self._task_rows, np.uint32)[ranges["task"]]
        upper = (ranges["start"] >= np.uint64(KERNEL_HALF)).astype(np.int64)
        ranges["dso"] = np.array(self._dso_rows, np.uint32)[ranges["dso"], upper]
        ranges["source"] = self._row
        if self._guest is not None:
            if self._guest.recorded:
                ranges["dso"][ranges["vmid"] > 0] = self._names.dso(NESTED)
            ranges["vmid"] = self._guest.number
            timed_rows = ranges["time"] != 0
            ranges["time"][timed_rows] = shift_times(ranges["time"][timed_rows], self._guest.behind)
        return ranges
