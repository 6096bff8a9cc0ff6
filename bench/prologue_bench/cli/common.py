"""Parts that the commands that read results share."""

from __future__ import annotations

import argparse
import math
import sys
from argparse import Namespace

from prologue.cli import arguments
from prologue_bench.analysis.compare import MARGIN


def repeat_command(args: Namespace, name: str) -> list[str]:
    """Write the command that makes the same report again."""
    margin = getattr(args, "margin", MARGIN)
    options = [] if margin == MARGIN else ["--margin", f"{100 * margin:.12g}"]
    return ["prologue", "bench", name, *args.results, *options]


def put(text: str) -> int:
    """Write a report to standard output.

    Returns:
        0, the exit code.

    """
    sys.stdout.write(text)
    return 0


def add_results(added: argparse.ArgumentParser) -> None:
    """Add what the samples are read from."""
    added.add_argument(
        "results", nargs="+", metavar="RESULTS",
        help="result set (a directory; several of one setup are merged), records (.jsonl) or logs (.log) of "
        "bench record, a table made by hand (.json), or example:NAME",
    )  # fmt: skip


def add_counters(added: argparse.ArgumentParser) -> None:
    """Add whether events of the CPU are counted."""
    added.add_argument(
        "--counters", action="store_true",
        help="count instructions, cycles, stalls, L1I and ITLB refills in each run, by perf_event_open",
    )  # fmt: skip


def add_margin(added: argparse.ArgumentParser) -> None:
    """Add the margin of equivalence."""
    added.add_argument(
        "--margin", type=percent, default=MARGIN, metavar="PERCENT",
        help=f"differences inside it count as equivalent (default: {100 * MARGIN:g})",
    )  # fmt: skip


def add_format(added: argparse.ArgumentParser, schema: str, *more: str) -> None:
    """Add how the report is printed; ``more`` are forms that other reports do not have."""
    arguments.add_format(added, schema, "markdown", "csv", *more)


def percent(text: str) -> float:
    """Read a percentage; raises ArgumentTypeError."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = math.nan
    if not 0 < value < 100:
        raise argparse.ArgumentTypeError(f"not a percentage between 0 and 100: {text!r}")
    return value / 100
