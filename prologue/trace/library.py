"""``prologue.open_trace``: what a kernel executed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from prologue.errors import Location, UndecidedError, UsageError
from prologue.library.files import File, FileName, path_of
from prologue.live.library import System
from prologue.live.system.programs import Program
from prologue.trace.path.assign import Kernels
from prologue.trace.path.check import ImageCheck
from prologue.trace.path.kernel_images import HostImage, follow_program, open_kernels
from prologue.trace.path.known import KnownRanges
from prologue.trace.path.reported import reported_words
from prologue.trace.ranges import TraceRanges
from prologue.trace.readers import sources
from prologue.trace.readers.streams import STDIN
from prologue.trace.views.stats import FunctionUse, by_function, executed
from prologue.trace.views.summary import TraceSummary

_FOLLOWS_FILE: Final = (
    "decoder that followed the text of the file: if that is not what ran, what comes after is not to be believed"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleText:
    """A word of a kernel's text that cannot be what ran, or at which the decoder went astray.

    ``where`` has its run-time address; ``word`` is what the text has there, None if the decoder's report does not say.
    ``count`` is how often the trace contradicts it.
    """

    kind: Literal["stale", "astray", "reported"]
    where: Location
    word: int | None
    count: int
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCheck:
    """Verdict on a trace: whether it can have run with a kernel's text.

    ``judged`` is how many steps (from one range to the next of a CPU) were looked at; ``unjudged`` says why others were
    not, with counts. ``notes`` say what was read, what could not be used, and what is not known of the text.
    """

    stale: tuple[StaleText, ...]
    judged: int
    unjudged: dict[str, int]
    notes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """True if nothing contradicts the text."""
        return not self.stale


class KernelTrace:
    """A trace and the kernel that ran. ``prologue.open_trace`` makes one; each method reads the trace anew."""

    def __init__(self, source: str, kernel: Path | System, slide: int | None = None) -> None:
        """See ``prologue.open_trace``."""
        self.source = source
        self._kernel, self._slide = kernel, slide
        with self._open():  # what cannot be read, or was recorded of another kernel, is refused at once
            pass

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.source!r}, {self._kernel!r})"

    def ranges(self) -> Iterator[TraceRanges]:
        """Read straight ranges of instructions that ran, in the order of the trace.

        Yields:
            Arrays of shape (n,) with the fields ``start`` and ``end`` (uint64: run-time addresses of the first
            instruction, and after the last), ``time`` (uint64, ns; 0 if it has none), ``cpu`` (int32, -1 if not known),
            ``level`` (uint8: exception level, 255 if not known), ``flags`` (uint8: 1 a gap before it, 2 an exception,
            4 an exception return), ``vmid`` and others. What cannot have run is left out.

        Raises:
            InputError: the trace is damaged.

        """
        with self._open() as (trace, known):
            for batch, _ in ImageCheck(known, trace).executed(trace):
                yield batch.ranges

    def check(self) -> TraceCheck:
        """Judge whether the text can be what ran.

        ``prologue trace check`` judges the same; of perf.data with kcore it also compares the file with what ran.

        Raises:
            InputError: the trace is damaged.
            UndecidedError: no step could be judged.

        """
        with self._open() as (trace, known):
            check, summary = ImageCheck(known, trace), TraceSummary(known)
            for batch, numbers in check.executed(trace):
                summary.add(batch, numbers)
            stale = tuple(_stale(trace, check, known.kernels))
            if not (check.judged or check.impossible or stale):
                raise UndecidedError(f"no step could be judged: {summary.why_no_step(check.unjudged)}", path=trace.name)
            ranges, instructions = check.left_out
            trace.account.add("ranges that cannot have run with this text, left out", ranges)
            trace.account.add("instructions of these ranges", instructions)
            notes = (*summary.lines(), *trace.account.lines())
            return TraceCheck(stale=stale, judged=check.judged, unjudged=dict(check.unjudged), notes=notes)

    def functions(self) -> list[FunctionUse]:
        """Count the kernel's functions that were executed, the one with the most instructions first.

        Returns:
            ``FunctionUse``: ``name``, ``vaddr`` (run-time), ``instructions`` executed, ``entries`` (how often the first
            one was) and ``distinct`` instructions.

        Raises:
            InputError: the trace is damaged.

        """
        with self._open() as (trace, known):
            check, summary = ImageCheck(known, trace), TraceSummary(known)
            for batch, numbers in check.executed(trace):
                summary.add(batch, numbers)
            return by_function(known.kernels.host, 0, executed(known, summary.runs, 0))

    @contextmanager
    def _open(self) -> Iterator[tuple[sources.Trace, KnownRanges]]:
        with sources.open_trace(self.source) as trace:
            kernels = self._kernels(trace)
            if trace.decoded is not None and not trace.decoded.own_memory and not self._has_memory(trace):
                trace.account.add(_FOLLOWS_FILE)
            yield trace, KnownRanges(kernels)

    def _has_memory(self, trace: sources.Trace) -> bool:
        """Return whether the text is memory's: of a system, or of ``perf record --kcore``."""
        kcore = trace.decoded.kcore if trace.decoded is not None else None
        return isinstance(self._kernel, System) or (self._slide is None and kcore is not None)

    def _kernels(self, trace: sources.Trace) -> Kernels:
        if isinstance(self._kernel, System):
            system = self._kernel
            host = HostImage(vmlinux=system.vmlinux, modules=system.modules)
            return follow_program(trace, system.program, system.memory, host)
        kcore = str(trace.decoded.kcore) if trace.decoded is not None and self._has_memory(trace) else None
        return open_kernels(trace, HostImage(vmlinux=self._kernel, memory=kcore, slide=self._slide), ())


def open_trace(source: FileName, kernel: File | System, *, slide: int | None = None) -> KernelTrace:
    """Open a trace of what a kernel executed, to read it with the kernel's text.

    Args:
        source: a recording, perf.data with CoreSight, the text of ``perf script``, or a snapshot
            directory.
        kernel: a ``System``, whose text is what memory has; or a vmlinux, whose text is what was linked, or
            what perf.data has of it (``perf record --kcore``).
        slide: with a vmlinux: how far the kernel ran from where it was linked, in bytes; by default what the trace
            says, or 0.

    Raises:
        InputError: the trace or the kernel cannot be read, or the trace was recorded of another build or boot.
        UsageError: the trace is standard input or a pipe, which cannot be read twice; or ``slide`` of a system.

    """
    if os.fspath(source) == STDIN or Path(source).is_fifo():
        raise UsageError(f"{os.fspath(source)}: a trace is read more than once: save it to a file")
    if slide is not None and isinstance(kernel, System):
        raise UsageError("slide is for a vmlinux: a system says where it runs")
    return KernelTrace(os.fspath(source), kernel if isinstance(kernel, System) else path_of(kernel), slide)


def _stale(trace: sources.Trace, check: ImageCheck, kernels: Kernels) -> Iterator[StaleText]:
    findings, host = check.findings(), kernels.host
    for word in findings.stale:
        yield StaleText(kind="stale", where=_place(host, word.vaddr), word=word.word, count=word.count,
                        message=check.describe(word))  # fmt: skip
    for word in findings.decoder:
        yield StaleText(kind="astray", where=_place(host, word.vaddr), word=word.word, count=word.count,
                        message=check.why_ignored(word))  # fmt: skip
    for report in reported_words(trace, kernels):
        where = Location(None) if report.vaddr is None else _place(host, report.vaddr)
        yield StaleText(kind="reported", where=where, word=report.word, count=report.count, message=report.describe())


def _place(program: Program, vaddr: int) -> Location:
    symbol, offset = program.place(vaddr)
    return Location(vaddr, symbol=symbol or None, symbol_offset=offset)
