"""``prologue bench export``: recorded results in another program's format."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from prologue.outputs import new_file, require_other
from prologue_bench.analysis.sources import open_sets
from prologue_bench.cli.common import put
from prologue_bench.results.store import CAMPAIGN, RESULTS


def run(args: Namespace) -> int:
    """Write results as a report for KernelCI."""
    from prologue_bench.report.kcidb import Source, to_kcidb

    source = Source(
        origin=args.origin, checkout=args.checkout, commit=args.commit, repository=args.repository, tree=args.tree
    )
    inputs = [Path(name) / file for name in args.results for file in ("", CAMPAIGN, RESULTS)]
    require_other(args.output, *inputs)
    text = to_kcidb(open_sets(args.results), source)
    if args.output is None:
        return put(text)
    with new_file(args.output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    print(f"{args.output}: written")
    return 0
