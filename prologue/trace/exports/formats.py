"""The subject of an export, the formats that a trace can be exported in, and what opens each."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import BinaryIO, Final, NamedTuple, Protocol

from prologue.arrays import I64, Bool
from prologue.trace.path.known import KnownRanges
from prologue.trace.ranges import Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSubject:
    """A trace that is exported.

    ``by_time``: times are ns of the trace's clock, otherwise instructions of each CPU.
    """

    name: str
    known: KnownRanges
    by_time: bool

    @property
    def title(self) -> str:
        """The title of the file, which says what its times count: these have no unit of their own."""
        return self.name if self.by_time else f"{self.name}: 1 ns is 1 instruction of that CPU"


class Export(Protocol):
    """A file that is being written while a trace is read."""

    def add(self, batch: Batch, numbers: I64, keep: Bool) -> None:
        """Take in a batch; only the ranges that are kept are exported, but call stacks are of all that ran."""

    def finish(self) -> list[str]:
        """Write what is left, and say what of the trace the file cannot hold."""


class ExportFormat(NamedTuple):
    """A format: its module and class here, whether it is a time line, what opens it, whether it speaks of a vmlinux."""

    place: str
    timed: bool
    opened_by: str
    of_vmlinux: bool = False

    def start(self, subject: ExportSubject, stream: BinaryIO) -> Export:
        """Start a file."""
        module, _, name = self.place.partition(":")
        made: Export = getattr(import_module(f"prologue.trace.exports.{module}"), name)(subject, stream)
        return made


FORMATS: Final = {
    "perfetto": ExportFormat("perfetto:PerfettoExport", True, "ui.perfetto.dev, trace_processor"),
    "folded": ExportFormat("stack_export:FoldedExport", False, "flamegraph.pl, inferno, speedscope.app"),
    "autofdo": ExportFormat("profile:AutofdoExport", False, "create_llvm_prof --profiler=text", of_vmlinux=True),
    "lcov": ExportFormat("lcov:LcovExport", False, "genhtml, lcov", of_vmlinux=True),
}
