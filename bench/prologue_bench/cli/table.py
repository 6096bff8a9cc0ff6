"""``prologue bench table``: what was measured, without verdicts."""

from __future__ import annotations

from argparse import Namespace
from typing import Final

from prologue_bench.cli.common import put
from prologue_bench.report import description
from prologue_bench.sources import open_results

_WRITERS: Final = {
    "text": description.to_text,
    "markdown": description.to_markdown,
    "csv": description.to_csv,
    "json": description.to_json,
}


def run(args: Namespace) -> int:
    """Print quartiles, extremes and flagged outliers of every variant."""
    return put(_WRITERS[args.format](open_results(args.results)))
