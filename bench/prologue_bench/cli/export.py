"""``prologue bench export``: recorded results in another program's format."""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from prologue.outputs import new_file, require_other
from prologue_bench.analysis.sources import open_sets
from prologue_bench.cli.common import add_results, put
from prologue_bench.results.store import CAMPAIGN, RESULTS


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    add_results(added)
    formats = added.add_mutually_exclusive_group(required=True)
    formats.add_argument(
        "--kcidb", action="store_true", help="a report in KernelCI's schema, KCIDB I/O 5.3, checked by its library"
    )
    added.add_argument(
        "--origin", required=True, type=_matching("[a-z0-9_]+", "a name of a-z, 0-9 and _"), metavar="NAME",
        help="name of your CI system, as registered with KernelCI",
    )  # fmt: skip
    added.add_argument(
        "--checkout", type=_matching("[a-z0-9_]+:.+", "ORIGIN:ID"), metavar="ID",
        help="KernelCI's id of the source code, if it was submitted already; no other is reported then",
    )  # fmt: skip
    added.add_argument(
        "--commit", type=_matching("[0-9a-f]{40}", "the 40 digits of a commit"), metavar="HASH",
        help="the commit that the kernel was built from",
    )  # fmt: skip
    added.add_argument(
        "--repository",
        type=_matching("https://.+", "an https:// URL"),
        metavar="URL",
        help="the repository that has it",
    )
    added.add_argument("--tree", metavar="NAME", help="KernelCI's name of that repository, such as mainline")
    added.add_argument("-o", "--output", type=Path, metavar="OUT", help="default: standard output")


def run(args: Namespace) -> int:
    """Write results as a report for KernelCI."""
    from prologue_bench.report.kcidb import Source, to_kcidb

    source = Source(
        origin=args.origin, checkout=args.checkout, commit=args.commit, repository=args.repository, tree=args.tree
    )
    sets = open_sets(args.results)
    inputs = [Path(name) / file for name in (*args.results, *dict(sets)) for file in ("", CAMPAIGN, RESULTS)]
    require_other(args.output, *(path for path in inputs if not path.is_dir()))  # a report may lie in a result set
    text = to_kcidb(sets, source)
    if args.output is None:
        return put(text)
    with new_file(args.output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    if not args.quiet:
        print(f"{args.output}: written")
    return 0


def _matching(pattern: str, noun: str) -> Callable[[str], str]:
    def checked(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"expected {noun}, found {text!r}")
        return text

    return checked
