"""``prologue writes judge``."""

from __future__ import annotations

import sys
from argparse import Namespace

from prologue.errors import UNDECIDED
from prologue.live.pokes.judge import judge_writes
from prologue.live.pokes.sources import read_any
from prologue.outputs import require_other, write_text
from prologue.report.printable import printable
from prologue.report.terminal import print_report
from prologue.report.writes import render_writes, summary


def run(args: Namespace) -> int:
    """Judge every recorded write: 1 if one of them is an error, 5 if its writer is not known for that release."""
    require_other(args.output, args.writes)
    judged = judge_writes(read_any(args.writes))
    passes = not (judged.failing or judged.undecided)
    if not args.quiet or not passes or args.output or args.format != "text":
        report = render_writes(judged, args.format, show_all=args.all)
        if args.output:
            write_text(args.output, report + "\n")
            if not passes or not args.quiet:
                print(printable(f"{args.output}: {summary(judged)}"), file=sys.stderr)
        else:
            print_report(report, args.format)
    return 1 if judged.failing else 0 if passes else UNDECIDED
