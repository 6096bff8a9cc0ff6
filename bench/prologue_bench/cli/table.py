"""``prologue bench table``: what was measured, without verdicts."""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path

from prologue_bench.analysis.sources import open_results
from prologue_bench.cli.common import add_format, add_results, put, repeat_command
from prologue_bench.report.description import entries_text, to_json, to_markdown, to_text


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    add_results(added)
    add_format(added, "bench-table")


def run(args: Namespace) -> int:
    """Print quartiles, extremes and flagged outliers of every variant; of exact counts also what was entered."""
    results = open_results(args.results)
    if args.format == "json":
        return put(to_json(results))
    command = repeat_command(args, "table")
    if args.format == "markdown":
        return put(to_markdown(results, command))
    exact = results.campaign.evidence == "exact" and len(args.results) == 1
    return put(to_text(results, command, entries_text(Path(args.results[0]), results) if exact else ""))
