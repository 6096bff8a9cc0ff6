"""What the commands that read results share."""

from __future__ import annotations

import sys
from argparse import Namespace

from prologue_bench.analysis.compare import MARGIN


def again(args: Namespace, name: str) -> list[str]:
    """The command that makes the same report again."""
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
