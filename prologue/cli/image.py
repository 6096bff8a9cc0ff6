"""``prologue image``."""

from __future__ import annotations

from argparse import Namespace

from prologue.apply import new_file, require_other
from prologue.elf.flat import flat_pieces
from prologue.sites.kernel import Kernel


def run(args: Namespace) -> int:
    """Write the flat Image."""
    require_other(args.output, args.file)
    image = Kernel(args.file).image
    with new_file(args.output) as temporary, temporary.open("r+b") as stream:
        for offset, data in flat_pieces(image):
            stream.seek(offset)
            stream.write(data)
        size = stream.tell()
    print(f"{args.output}: {size:,} bytes")
    return 0
