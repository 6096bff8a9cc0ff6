"""The way of a report: to standard output, or to the file of ``-o`` with its last line on standard error."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable

from prologue.outputs import write_text
from prologue.report.printable import printable
from prologue.report.terminal import print_report


def is_wanted(args: Namespace, *, passes: bool) -> bool:
    """Return whether a report is made: ``--quiet`` saves text that passes."""
    return bool(not (args.quiet and passes) or args.output or args.format != "text")


def put_report(
    args: Namespace, report: str, closing: str = "", *, passes: bool = True, causes: Iterable[str] = ()
) -> None:
    """Print a report, or write it to the file of ``-o``: then the log gets its ``causes``, and ``closing``.

    Both are left out if it passes quietly.
    """
    if args.output is None:
        print_report(report, args.format)
        return
    write_text(args.output, report + "\n")
    if passes and args.quiet:
        return
    for line in causes:
        print(line, file=sys.stderr)
    if closing:
        print(printable(f"{args.output}: {closing}"), file=sys.stderr)
