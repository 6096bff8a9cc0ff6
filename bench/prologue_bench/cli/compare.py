"""``prologue bench compare``: the report with verdicts."""

from __future__ import annotations

from argparse import Namespace

from prologue_bench.analysis.compare import compare
from prologue_bench.analysis.sources import open_results
from prologue_bench.cli.common import again, put
from prologue_bench.report.data import to_csv, to_json
from prologue_bench.report.text import to_markdown, to_text


def run(args: Namespace) -> int:
    """Compare every variant with the base, and print what may be said."""
    report = compare(open_results(args.results), args.margin)
    if args.format == "json":
        return put(to_json(report))
    if args.format == "csv":
        return put(to_csv(report))
    write = to_markdown if args.format == "markdown" else to_text
    return put(write(report, again(args, "compare")))
