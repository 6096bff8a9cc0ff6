"""The way of a report: to standard output, or to the file of ``-o`` with its last line on standard error."""

from __future__ import annotations

import sys
from argparse import Namespace

from prologue.outputs import write_text
from prologue.report.printable import printable
from prologue.report.terminal import print_report


def is_wanted(args: Namespace, *, passes: bool) -> bool:
    """Return whether a report is made: ``--quiet`` saves text that passes."""
    return bool(not (args.quiet and passes) or args.output or args.format != "text")


def put_report(args: Namespace, report: str, closing: str = "", *, passes: bool = True) -> None:
    """Print a report, or write it to the file of ``-o``; then ``closing`` is said, unless it passes quietly."""
    if args.output is None:
        print_report(report, args.format)
        return
    write_text(args.output, report + "\n")
    if closing and not (passes and args.quiet):
        print(printable(f"{args.output}: {closing}"), file=sys.stderr)
