"""The way of reports of ``--json``, ``--format`` and ``-o``."""

from __future__ import annotations

from argparse import Namespace

from prologue.cli.arguments import require_html
from prologue.cli.trace_inputs import require_no_input
from prologue.errors import UsageError
from prologue.outputs import write_text


def require_report(args: Namespace) -> None:
    """Refuse, before the work, a report of a trace that cannot be written.

    Raises:
        UsageError: a file for text, which goes to standard output and standard error.
        InputError: HTML without Jinja2.
        OutputError: the report would replace an input.

    """
    if args.output is not None and args.format == "text":
        raise UsageError("-o is for --json and --format html")
    require_html(args.format)
    require_no_input(args.output, args)


def put_report(args: Namespace, text: str) -> None:
    """Print a report, or write it to the file of ``-o``."""
    if args.output is None:
        print(text)
    else:
        write_text(args.output, text + "\n")
