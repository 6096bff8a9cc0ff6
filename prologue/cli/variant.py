"""``prologue variant``."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from prologue.cli.subcommands import Subcommand
from prologue.kernel.kernel import Kernel
from prologue.patching.patch import carry_out
from prologue.plan.variants import variant_plan
from prologue.report.printable import printable
from prologue.rules.engine import approve


def add_options(command: Subcommand) -> None:
    """Give ``variant`` its options."""
    command.add_argument("file", type=Path, metavar="VMLINUX", help="as linked")
    command.add_argument(
        "--kind", choices=("nop-nop", "boot", "build"), required=True,
        help="nop-nop: sites never touched (not safe to trace); boot: as linked; build: processed",
    )  # fmt: skip
    command.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="the vmlinux of that variant")


def run(args: Namespace) -> int:
    """Write one variant and print how it differs."""
    kernel = Kernel(args.file)
    plan = variant_plan(kernel, args.kind)
    approved = approve(kernel, plan)
    carry_out(approved, args.output, independent=True)
    note = "; not safe to trace" if args.kind == "nop-nop" else ""
    words = len(plan.changed_words())
    differ = "1 word differs" if words == 1 else f"{words:,} words differ"
    if not args.quiet:
        print(printable(f"{args.output}: {args.kind}: same link, {differ}{note}"))
    return 0
