"""``prologue trace export``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from itertools import chain

import numpy as np

from prologue.arrays import I64, Bool
from prologue.errors import UsageError
from prologue.outputs import new_file
from prologue.trace.cli.inputs import begin_reading, make_filters, require_no_input, use_example_trace
from prologue.trace.cli.notes import print_notes
from prologue.trace.exports.formats import FORMATS, ExportSubject
from prologue.trace.ranges import Batch
from prologue.words import printable

_Passing = tuple[Batch, I64, Bool, tuple[Batch, I64]]


def run(args: Namespace) -> int:
    """Write the file."""
    use_example_trace(args)
    form = FORMATS[args.format]
    if form.of_vmlinux and args.vmlinux is None:
        raise UsageError(f"--format {args.format} needs --vmlinux: such a file has the addresses or lines of one")
    require_no_input(args.output, args)
    with begin_reading(args) as reading:
        trace = reading.trace
        filters = make_filters(args, reading.kernels)
        start, batches = _begin(reading.passing(filters))
        by_time = form.timed and start > 0 and (trace.header is None or trace.header.clocked)
        subject = ExportSubject(name=printable(trace.name), known=reading.known, by_time=by_time)
        with new_file(args.output) as temporary, temporary.open("wb") as stream:
            export, timed = form.start(subject, stream), False
            for batch, every, keep, _ in batches:
                timed = timed or bool(batch.ranges["time"].any())
                export.add(batch, every, keep)
            notes = export.finish()
        if form.timed and not by_time:
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
