"""``prologue image`` and ``prologue variant``: other files of a vmlinux."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from prologue.cli.arguments import OrExample, example_files
from prologue.cli.subcommands import Subcommand
from prologue.elf.flat import write_flat
from prologue.kernel.kernel import Kernel
from prologue.outputs import require_other
from prologue.patching.patch import carry_out
from prologue.plan.variants import KINDS, variant_plan
from prologue.rules.engine import approve
from prologue.words import counted, printable


def add_image_options(command: Subcommand) -> None:
    """Give ``image`` its options."""
    command.add_argument(
        "file", action=OrExample, type=Path, metavar="VMLINUX", help="processed or not, or example:NAME"
    )
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="the Image, as objcopy -O binary makes it"
    )


def run_image(args: Namespace) -> int:
    """Write the flat Image."""
    [file] = example_files([args.file])
    require_other(args.output, file)
    image = Kernel(file).image
    size = write_flat(image, args.output)
    if not args.quiet:
        print(printable(f"{args.output}: {size:,} bytes"))
    return 0


def add_variant_options(command: Subcommand) -> None:
    """Give ``variant`` its options."""
    command.add_argument("file", type=Path, metavar="VMLINUX", help="as linked")
    command.add_argument(
        "--kind", choices=KINDS, required=True,
        help="nop-nop: sites never touched (not safe to trace); boot: as linked; build: processed",
    )  # fmt: skip
    command.add_argument("-o", "--output", type=Path, required=True, metavar="OUT", help="the vmlinux of that variant")


def run_variant(args: Namespace) -> int:
    """Write one variant and print how it differs."""
    kernel = Kernel(args.file)
    plan = variant_plan(kernel, args.kind)
    carry_out(approve(kernel, plan), args.output, independent=True)
    note = "; not safe to trace" if args.kind == "nop-nop" else ""
    differ = counted(len(plan.changed_words()), "word differs", plural="words differ")
    if not args.quiet:
        print(printable(f"{args.output}: {args.kind}: same link, {differ}{note}"))
    return 0
