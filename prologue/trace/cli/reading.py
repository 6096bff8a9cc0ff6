"""A trace that is read once, with the kernels that ran: what the commands of ``prologue trace`` do alike."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass

from prologue.arrays import I64, Bool
from prologue.trace.cli.inputs import open_history, open_kernels, open_the_trace
from prologue.trace.cli.notes import left_out_lines, unmatched, warnings
from prologue.trace.path.assign import Kernels
from prologue.trace.path.check import ImageCheck
from prologue.trace.path.filters import Filters, Selection
from prologue.trace.path.known import KnownRanges
from prologue.trace.ranges import Batch
from prologue.trace.readers.sources import Trace
from prologue.trace.views.summary import TraceSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceReading:
    """A trace, the kernels that its options name, and what is learned of both while it is read."""

    args: Namespace
    trace: Trace
    kernels: Kernels
    known: KnownRanges
    check: ImageCheck
    summary: TraceSummary

    def passing(self, filters: Filters) -> Iterator[tuple[Batch, I64, Bool, tuple[Batch, I64]]]:
        """Read the trace: yield batches, the numbers of their ranges, which of these pass, and those that do."""
        selection = Selection()
        for batch, numbers in self.check.executed(self.trace):
            keep = filters.mask(batch, numbers, self.known)
            wanted = selection.take(batch, numbers, keep)
            self.summary.add(*wanted)
            yield batch, numbers, keep, wanted

    def notes(
        self, filters: Filters, extra: Sequence[str] = (), entered: Set[tuple[int, int]] = frozenset()
    ) -> list[str]:
        """Return what is to be said in the end; ``extra`` is of one command, ``entered`` are roots of call trees."""
        return [
            *warnings(self.check, self.trace, self.args),
            *unmatched(self.args, filters, self.known, entered),
            *self.summary.lines(),
            *extra,
            *left_out_lines(self.check),
            *self.trace.account.lines(),
        ]


@contextmanager
def begin_reading(args: Namespace, explained: int | None = None) -> Iterator[TraceReading]:
    """Open the trace and the kernels that the options name; errors as of what opens them, ``explained`` as there."""
    with open_the_trace(args) as trace:
        kernels = open_kernels(args, trace, explained)
        known = KnownRanges(kernels, open_history(args, trace, kernels))
        check, summary = ImageCheck(known, trace), TraceSummary(known)
        yield TraceReading(args=args, trace=trace, kernels=kernels, known=known, check=check, summary=summary)
