"""``prologue trace disasm``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from prologue.errors import UsageError
from prologue.outputs import new_file
from prologue.trace.cli.inputs import begin_reading, make_filters, require_no_input, use_example_trace
from prologue.trace.cli.notes import print_notes
from prologue.trace.path.known import KnownRanges
from prologue.trace.views.rendering import PERF_HEAD, PERF_TAIL, JsonLines, PerfLines, PlainLines
from prologue.trace.views.tree import CallTrees

SCHEMA: Final = "prologue.trace-disasm/1"
_DEPTH: Final = 8


def run(args: Namespace) -> int:
    """Print the instructions that ran."""
    if args.depth is not None and not args.root:
        raise UsageError("--depth is for --from, which is not given")
    use_example_trace(args)
    require_no_input(args.output, args)
    with begin_reading(args) as reading:
        trace, kernels, known = reading.trace, reading.kernels, reading.known
        filters = make_filters(args, kernels)
        trees = _trees(args, known) if args.root else None
        lines = _renderer(args.format, known)
        with _output(args.output) as out:
            head = {
                "schema": SCHEMA,
                "trace": trace.name,
                "kind": trace.kind,
                "images": [p.name for p in kernels.programs],
                "memory": args.memory,
            }
            form = "trees" if args.root else args.format or "perf"
            out.write({"perf": PERF_HEAD, "jsonl": json.dumps(head).encode() + b"\n"}.get(form, b""))
            for batch, every, keep, wanted in reading.passing(filters):
                out.writelines(trees.render(batch, every, keep) if trees else lines.render(*wanted))
            out.write(PERF_TAIL if form == "perf" else b"")
        print_notes(reading.notes(filters, entered=trees.entered if trees else frozenset()))
    return 0


def _trees(args: Namespace, known: KnownRanges) -> CallTrees:
    if args.symbols or args.format is not None:
        raise UsageError("--from prints call trees: it does not go with --symbols and --format")
    roots = frozenset(known.kernels.find_symbols(args.root))
    return CallTrees(known, roots, _DEPTH if args.depth is None else args.depth)


def _renderer(format_: str | None, known: KnownRanges) -> PerfLines | PlainLines | JsonLines:
    if format_ in (None, "perf"):
        return PerfLines(known)
    if format_ == "jsonl":
        return JsonLines(known)
    if format_ == "srcline":
        from prologue.trace.views.source_lines import SourceBlocks

        return PlainLines(known, SourceBlocks(known).block)
    return PlainLines(known)


@contextmanager
def _output(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with new_file(path) as temporary, temporary.open("wb") as stream:
        yield stream
