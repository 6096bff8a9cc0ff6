"""``prologue bench links``: many links of one build, so that a result does not depend on one layout."""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path
from typing import Final

from prologue.cli.arguments import number_from
from prologue.errors import RefusedError, UsageError
from prologue.kernel.kernel import Kernel
from prologue.kernel.linked import is_by_sorttable
from prologue.library.verifying import verify
from prologue.plan.variants import KINDS
from prologue.words import counted
from prologue_bench.campaign.variants import plan_variants
from prologue_bench.errors import BenchError
from prologue_bench.links.making import hold_links, make_links, plan_links, take_links
from prologue_bench.links.recorded import VMLINUX, RecordedLink
from prologue_bench.links.tree import BuildTree, open_tree

_COUNT: Final = 12
_ALIGNMENTS: Final = (8, 16, 32, 64)  # bytes: a CALL_OPS literal needs 8, a cache line is 64
_MOST: Final = 4096


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    added.add_argument(
        "sources", nargs="+", type=Path, metavar="TREE|VMLINUX",
        help="directory of a kernel build (6.1 or newer), which stays as it is; or several vmlinux that you linked",
    )  # fmt: skip
    added.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="links, created or resumed")
    added.add_argument("-n", "--number", type=number_from(2), metavar="N", help=f"links of a TREE (default: {_COUNT})")
    added.add_argument("--seed", type=number_from(0), metavar="N", help="for the orders of a TREE (default: 1)")
    added.add_argument(
        "--align", type=_alignments, metavar="BYTES,...",
        help="alignments of each object's text, in turn (default: " + ",".join(map(str, _ALIGNMENTS)) + ")",
    )  # fmt: skip


def run(args: Namespace) -> int:
    """Make the links that are missing, and describe all of them."""
    with hold_links(args.output):
        if args.sources[0].is_dir():
            if len(args.sources) > 1:
                raise UsageError(
                    f"one TREE or several VMLINUX, not {counted(len(args.sources), 'argument')} with a TREE"
                )
            tree = open_tree(args.sources[0])
            _require_variants(tree)
            plans = plan_links(
                tree, args.number or _COUNT, 1 if args.seed is None else args.seed, args.align or _ALIGNMENTS
            )  # fmt: skip
            if not args.quiet:
                units = counted(len(tree.units), tree.granularity)
                print(f"{tree.out}: main text of {units}, put in random orders", flush=True)
            made = make_links(tree, plans, args.output, _check)
        else:
            if given := next((name for name in ("number", "seed", "align") if getattr(args, name) is not None), None):
                raise UsageError(f"--{given}: needs a TREE: these files are linked already")
            if len(args.sources) < 2:
                raise UsageError(f"{args.sources[0]}: one link is one sample: name several, or the TREE of its build")
            made = take_links(args.sources, args.output, _check)
        for link in made:
            if not args.quiet:
                print(_line(link), flush=True)
    return 0


def _require_variants(tree: BuildTree) -> None:
    """Refuse a build of whose links no variants can be made, before the first link, which takes minutes.

    What Makefile.postlink processed says nothing of them: they come out of the link as it got them.
    """
    vmlinux = tree.out / VMLINUX
    kernel = Kernel(vmlinux)
    if kernel.marker is None or not kernel.marker.processed or is_by_sorttable(kernel, kernel.marker):
        try:
            plan_variants(vmlinux, KINDS)
        except RefusedError as error:
            raise BenchError(f"{tree.out}: no variants can be made of its links: {error}") from error


def _check(vmlinux: Path) -> None:
    """Refuse a link that does not pass verify, or of which no variants can be made."""
    verified = verify(vmlinux)
    if not verified.passed:
        raise BenchError(f"{vmlinux}: does not pass verify: {verified.findings[0]}")
    plan_variants(vmlinux, KINDS)


def _line(link: RecordedLink) -> str:
    made = "" if link.plan is None else f"align {link.plan.alignment}, "
    return (
        f"{link.name}: {link.build_id[:12]}, {made}{link.moved:,} of {link.sites:,} functions follow another; "
        f"share a line: {link.lines.sharing:,} sites ({link.lines.touched:,} lines), "
        f"a page: {link.pages.sharing:,} ({link.pages.touched:,})"
    )


def _alignments(text: str) -> tuple[int, ...]:
    try:
        values = tuple(map(int, text.split(",")))
    except ValueError:
        values = ()
    if not values or any(value < 4 or value > _MOST or value & (value - 1) for value in values):
        raise argparse.ArgumentTypeError(f"expected powers of 2 from 4 to {_MOST}, found {text!r}")
    return values
