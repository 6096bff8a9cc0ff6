"""``prologue image``."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from prologue.cli.examples import OrExample, example_files
from prologue.cli.subcommands import Subcommand
from prologue.elf.flat import write_flat
from prologue.kernel.kernel import Kernel
from prologue.outputs import require_other
from prologue.report.printable import printable


def add_options(command: Subcommand) -> None:
    """Give ``image`` its options."""
    command.add_argument(
        "file", action=OrExample, type=Path, metavar="VMLINUX", help="processed or not, or example:NAME"
    )
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="the Image, as objcopy -O binary makes it"
    )


def run(args: Namespace) -> int:
    """Write the flat Image."""
    [file] = example_files([args.file])
    require_other(args.output, file)
    image = Kernel(file).image
    size = write_flat(image, args.output)
    if not args.quiet:
        print(printable(f"{args.output}: {size:,} bytes"))
    return 0
