"""``prologue bench table``: what was measured, without verdicts."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Final

from prologue_bench.cli.common import put
from prologue_bench.report import description
from prologue_bench.report.entries import entries_text
from prologue_bench.sources import open_results

_WRITERS: Final = {
    "text": description.to_text,
    "markdown": description.to_markdown,
    "csv": description.to_csv,
    "json": description.to_json,
}


def run(args: Namespace) -> int:
    """Print quartiles, extremes and flagged outliers of every variant; of exact counts also what was entered."""
    results = open_results(args.results)
    text = _WRITERS[args.format](results)
    if args.format == "text" and results.campaign.evidence == "exact" and len(args.results) == 1:
        text += entries_text(Path(args.results[0]), results)
    return put(text)
