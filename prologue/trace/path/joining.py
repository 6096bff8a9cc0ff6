"""Several traces of one machine, read one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np

from prologue.errors import InputError, UsageError
from prologue.trace.ranges import Batch, BatchNames
from prologue.trace.readers.decoders import common
from prologue.trace.readers.recording import RecordingHeader
from prologue.trace.readers.sources import Trace, open_trace


@contextmanager
def open_traces(names: Sequence[str], *, needs_times: bool) -> Iterator[Trace]:
    """Open traces of one machine one after the other.

    ``needs_times``: the trace will be compared with times of another clock.

    Raises:
        InputError: a trace cannot be opened, or is damaged from the start; its batches raise it, too.
        UsageError: traces that cannot be read together.

    """
    with ExitStack() as stack:
        trace = stack.enter_context(open_trace(names[0]))
        more = [stack.enter_context(open_trace(name, trace.account)) for name in names[1:]]
        if more:
            for part in (trace, *more):
                if part.decoded is not None:  # each decoder follows a program of its own
                    raise UsageError(f"{part.name}: perf.data and snapshots are read one at a time")
            trace = join_traces([trace, *more])
        if needs_times and trace.kind == "opencsd":
            trace.account.add("trace of OpenCSD whose timestamps are taken as ns of the clock of --writes")
        yield trace


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
        tasks, dsos = list[int](), list[int]()
        for batch in batches:
            tasks += map(names.task, batch.tasks[len(tasks) :])
            dsos += map(names.dso, batch.dsos[len(dsos) :])
            ranges = batch.ranges.copy()
            ranges["task"] = np.array(tasks, np.uint32)[ranges["task"]]
            ranges["dso"] = np.array(dsos, np.uint32)[ranges["dso"]]
            yield Batch(ranges, names.tasks, names.dsos)
