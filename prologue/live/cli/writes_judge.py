"""``prologue writes judge``."""

from __future__ import annotations

from argparse import Namespace

from prologue.cli.reports import is_wanted, put_report
from prologue.errors import UNDECIDED
from prologue.live.pokes.judge import judge_writes
from prologue.live.pokes.sources import read_any
from prologue.live.report.writes import render_writes, summary
from prologue.outputs import require_other


def run(args: Namespace) -> int:
    """Judge every recorded write: 1 if one of them is an error, 5 if its writer is not known for that release."""
    require_other(args.output, args.writes)
    judged = judge_writes(read_any(args.writes))
    passes = not (judged.failing or judged.undecided)
    if is_wanted(args, passes=passes):
        put_report(args, render_writes(judged, args.format, show_all=args.all), summary(judged), passes=passes)
    return 1 if judged.failing else 0 if passes else UNDECIDED
