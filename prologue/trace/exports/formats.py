"""The formats that a trace can be exported in, and what opens each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

if TYPE_CHECKING:
    from prologue.trace.exports.subject import Export, ExportSubject


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
