"""``prologue trace export``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from itertools import chain

import numpy as np

from prologue.arrays import I64, Bool
from prologue.errors import UsageError
from prologue.outputs import new_file
from prologue.report.printable import printable
from prologue.trace.cli.inputs import begin_reading, make_filters, require_no_input, use_example_trace
from prologue.trace.cli.notes import print_notes
from prologue.trace.exports.formats import FORMATS, ExportSubject
from prologue.trace.ranges import Batch
from prologue.trace.readers.sources import Trace

_Passing = tuple[Batch, I64, Bool, tuple[Batch, I64]]


def run(args: Namespace) -> int:
    """Write the file."""
    use_example_trace(args)
    form = FORMATS[args.format]
    if args.axis is not None and not form.timed:
        raise UsageError(
            f"--axis is for time lines: {', '.join(name for name, other in FORMATS.items() if other.timed)}"
        )
    if form.of_vmlinux and args.vmlinux is None:
        raise UsageError(f"--format {args.format} needs --vmlinux: such a file has the addresses or lines of one")
    require_no_input(args.output, args)
    with begin_reading(args) as reading:
        trace = reading.trace
        filters = make_filters(args, reading.kernels)
        start, batches = _begin(reading.passing(filters))
        by_time = _by_time(args.axis, trace, start) if form.timed else False
        subject = ExportSubject(name=printable(trace.name), known=reading.known, by_time=by_time)
        with new_file(args.output) as temporary, temporary.open("wb") as stream:
            export, timed = form.start(subject, stream), False
            for batch, every, keep, _ in batches:
                timed = timed or bool(batch.ranges["time"].any())
                export.add(batch, every, keep)
            notes = export.finish()
        if form.timed and not by_time and args.axis is None:
            which = "the begin of the trace" if timed else "the trace"
            notes.append(f"{which} has no times: 1 ns of the time line is 1 instruction of that CPU")
        print_notes(reading.notes(filters, notes))
    return 0


def _begin(batches: Iterator[_Passing]) -> tuple[int, Iterator[_Passing]]:
    """Return the first time of the first batch that has ranges, 0 if it has none, and all batches."""
    held: list[_Passing] = []
    for batch in batches:
        held.append(batch)
        times = batch[0].ranges["time"]
        if len(times):
            known = times[times != 0]
            return int(np.min(known)) if len(known) else 0, chain(held, batches)
    return 0, iter(held)


def _by_time(axis: str | None, trace: Trace, start: int) -> bool:
    """Return whether a time line shows times.

    Raises:
        UsageError: it should, and the trace has none.

    """
    has = start > 0 and (trace.header is None or trace.header.clocked)
    if axis == "time" and not has:
        raise UsageError(f"--axis time: {trace.name} has no times, or none at its begin")
    return has if axis is None else axis == "time"
