"""``prologue image``."""

from __future__ import annotations

from argparse import Namespace

from prologue.elf.flat import write_flat
from prologue.kernel.kernel import Kernel
from prologue.outputs import require_other


def run(args: Namespace) -> int:
    """Write the flat Image."""
    require_other(args.output, args.file)
    image = Kernel(args.file).image
    size = write_flat(image, args.output)
    print(f"{args.output}: {size:,} bytes")
    return 0
