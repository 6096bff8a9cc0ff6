"""``prologue bench compare``: the report with verdicts, or several links side by side."""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path

from prologue.cli.arguments import require_html
from prologue.errors import UsageError
from prologue_bench.analysis.compare import MARGIN, compare
from prologue_bench.analysis.links import compare_links
from prologue_bench.analysis.sources import open_results
from prologue_bench.cli.common import add_format, add_margin, add_results, put, repeat_command, require_no_input
from prologue_bench.report import data, links, text
from prologue_bench.report.ktap import to_ktap


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    add_results(added)
    added.add_argument(
        "--kernels", action="store_true",
        help="kernels of several links side by side, by exact counts of their boots (icount): RESULTS are directories, "
        "or LABEL=DIRECTORY (json: schema prologue.bench-links/1)",
    )  # fmt: skip
    add_margin(added)
    add_format(added, "bench-compare", "html", "ktap")
    added.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="write the report there (default: standard output)"
    )


def run(args: Namespace) -> int:
    """Compare every variant with the base, and print what may be said."""
    require_html(args.format)
    require_no_input(args.output, (word if Path(word).exists() else _named(word)[1] for word in args.results))
    return put(_kernels(args) if args.kernels else _variants(args), args.output)


def _variants(args: Namespace) -> str:
    report = compare(open_results(args.results), args.margin)
    if args.format == "json":
        return data.to_json(report)
    if args.format == "html":
        from prologue_bench.report.html import to_html

        return to_html(report, [*repeat_command(args, "compare"), "--format", "html"]) + "\n"
    if args.format == "ktap":
        return to_ktap(report)
    write = text.to_markdown if args.format == "markdown" else text.to_text
    return write(report, repeat_command(args, "compare"))


def _kernels(args: Namespace) -> str:
    if args.margin != MARGIN:
        raise UsageError("--kernels compares exact counts, which have no --margin")
    if args.format in ("html", "ktap"):
        raise UsageError(f"--kernels has no --format {args.format}")
    named = [_named(word) for word in args.results]
    compared = compare_links([(label, open_results([name])) for label, name in named])
    if args.format == "json":
        return links.to_json(compared)
    write = links.to_markdown if args.format == "markdown" else links.to_text
    return write(compared, ["prologue", "bench", "compare", "--kernels", *args.results])


def _named(word: str) -> tuple[str, str]:
    """Parse ``LABEL=RESULTS``, or RESULTS alone, whose last part is the label."""
    label, equals, name = word.partition("=")
    if equals and label and "/" not in label:
        return label, name
    return Path(word).name or word, word
