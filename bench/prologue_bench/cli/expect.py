"""``prologue bench expect``: the campaign that decides a margin on a board."""

from __future__ import annotations

import argparse
import json
from argparse import Namespace
from typing import Final

from prologue.cli.arguments import number_from
from prologue.words import counted
from prologue_bench.analysis.layouts import links_to_decide
from prologue_bench.cli.common import add_margin, percent

SCHEMA: Final = "prologue.bench-expect/2"
_VARY: Final = 0.003


def add_options(added: argparse.ArgumentParser) -> None:
    """Add all options."""
    added.add_argument(
        "--boots-vary", type=percent, default=_VARY, metavar="PERCENT",
        help=f"standard deviation of boots of one kernel, as your board has it (default: {100 * _VARY:g})",
    )  # fmt: skip
    added.add_argument(
        "--layouts-vary", type=percent, default=_VARY, metavar="PERCENT",
        help=f"and of the effect between layouts, as bench compare has it (default: {100 * _VARY:g})",
    )  # fmt: skip
    added.add_argument("--boots", type=number_from(1), default=3, metavar="N", help="blocks a link (default: 3)")
    add_margin(added)
    added.add_argument("--json", action="store_true", help=f"print JSON (schema {SCHEMA})")


def run(args: Namespace) -> int:
    """Print how many links and boots decide the margin, and the commands of that campaign."""
    # Of the mean difference of a link: two boots of one kernel in each pair, and the layout.
    deviation = (args.layouts_vary**2 + 2 * args.boots_vary**2 / args.boots) ** 0.5
    links = links_to_decide(deviation, args.margin)
    boots = None if links is None else 3 * links * args.boots  # of base, base again (the control) and the variant
    commands = [] if links is None else _commands(links, args.boots)
    if args.json:
        document = {
            "schema": SCHEMA, "margin": args.margin, "boots_vary": args.boots_vary, "layouts_vary": args.layouts_vary,
            "links": links, "boots": boots, "commands": commands,
        }  # fmt: skip
        print(json.dumps(document, indent=2))
        return 0
    assumed = (
        f"if boots vary by {100 * args.boots_vary:g}% and the effect by {100 * args.layouts_vary:g}% between layouts"
    )
    margin = f"a margin of {100 * args.margin:g}%"
    if links is None or boots is None:
        print(f"No campaign of a sensible size decides {margin}, {assumed}.")
        return 0
    print(
        f"To decide {margin} on a board, {assumed}: {counted(links, 'link')}, "
        f"{counted(args.boots, 'block')} on each, {counted(boots, 'boot')} with the control.\n"
    )
    for command in commands:
        print(f"  {command}")
    return 0


def _commands(links: int, pairs: int) -> list[str]:
    return [
        f"prologue bench links linux/out -n {links} -o links/",
        "prologue bench run --links links/ --variants nop-nop,boot --target ssh:root@board --governor performance "
        f"--workload hackbench:process,sockets,g=10,l=1000 --boots {pairs} --runs 3 --seed 7 -o board/",
    ]
