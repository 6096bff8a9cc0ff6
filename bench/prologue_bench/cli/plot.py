"""``prologue bench plot``: the picture of a comparison."""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path

from prologue.cli.arguments import add_look, look_of
from prologue.report.pictures import require_plottable
from prologue_bench.analysis.compare import compare
from prologue_bench.analysis.sources import open_results
from prologue_bench.cli.common import add_margin, add_results


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    add_results(added)
    add_margin(added)
    added.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="picture: FILE.png, .svg or .pdf"
    )
    add_look(added)


def run(args: Namespace) -> int:
    """Draw every sample, and every difference with its interval."""
    require_plottable(args.output)
    from prologue_bench.report.plots import save

    save(compare(open_results(args.results), args.margin), args.output, look_of(args))
    if not args.quiet:
        print(f"{args.output}: written")
    return 0
