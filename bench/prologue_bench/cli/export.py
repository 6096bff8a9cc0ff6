"""``prologue bench export``: recorded results in other programs' formats."""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from prologue.errors import UsageError
from prologue_bench.analysis.compare import compare
from prologue_bench.analysis.sources import open_sets
from prologue_bench.cli.common import add_results, put, require_no_input
from prologue_bench.report.figures import to_figures
from prologue_bench.report.samples import samples_csv, to_benchstat
from prologue_bench.results.merge import merge


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    add_results(added)
    formats = added.add_mutually_exclusive_group(required=True)
    formats.add_argument(
        "--kcidb", action="store_true", help="a report in KernelCI's schema, KCIDB I/O 5.3, checked by its library"
    )
    formats.add_argument("--csv", action="store_true", help="a row for each run, with its boot and block")
    formats.add_argument(
        "--benchstat", action="store_true", help="Go's benchmark format, a line a boot: benchstat -col /variant FILE"
    )  # fmt: skip
    formats.add_argument(
        "--for-mail", action="store_true",
        help="lines for a patch's mail, each with kernel, compiler, machine and file (JSON: prologue.bench-figures/1)",
    )  # fmt: skip
    added.add_argument(
        "--origin", type=_matching("[a-z0-9_]+", "a name of a-z, 0-9 and _"), metavar="NAME",
        help="name of your CI system, as registered with KernelCI (--kcidb needs it)",
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
    """Write results in the form that was asked for."""
    source = {name: getattr(args, name) for name in ("origin", "checkout", "commit", "repository", "tree")}
    if not args.kcidb and (given := next((name for name, value in source.items() if value), None)):
        raise UsageError(f"--{given}: for --kcidb only")
    if args.kcidb and not args.origin:
        raise UsageError("--kcidb: needs --origin NAME, of your CI system")
    sets = open_sets(args.results)
    require_no_input(args.output, (*args.results, *dict(sets)))
    if args.kcidb:
        from prologue_bench.report.kcidb import Source, to_kcidb

        text = to_kcidb(sets, Source(**source))
    elif args.for_mail:
        text = to_figures(compare(merge(sets)), args.results)
    else:
        text = (samples_csv if args.csv else to_benchstat)(merge(sets))
    return put(text, args.output)


def _matching(pattern: str, noun: str) -> Callable[[str], str]:
    def checked(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise argparse.ArgumentTypeError(f"expected {noun}, found {text!r}")
        return text

    return checked
