"""``prologue live judge``."""

from __future__ import annotations

import sys
from argparse import Namespace

from prologue.outputs import require_other, write_text
from prologue.record.sources import read_any
from prologue.report.printable import printable
from prologue.report.writes import render_writes, summary
from prologue.rules.writes import judge_writes


def run(args: Namespace) -> int:
    """Judge every recorded write; 1 if one of them is an error."""
    require_other(args.output, args.file)
    judged = judge_writes(read_any(args.file))
    if not args.quiet or judged.failing or args.output:
        report = render_writes(judged, args.format, show_all=args.all)
        if args.output:
            write_text(args.output, report + "\n")
            if judged.failing or not args.quiet:
                print(printable(f"{args.output}: {summary(judged)}"), file=sys.stderr)
        else:
            print(report)
    return int(judged.failing)
