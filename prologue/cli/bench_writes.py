"""``prologue bench writes``: its part of the grammar."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from prologue.cli.arguments import number_from
from prologue.cli.bench_defaults import CPU, CPUS, MEMORY, TIMEOUT

HELP: Final = "record every write to kernel text in QEMU, from reset to power-off"
EXAMPLES: Final = (
    "  prologue bench writes --vmlinux vmlinux -o boot.writes          # boots, and powers off as init's first act\n"
    "  prologue bench writes --vmlinux vmlinux --initrd initrd.cpio --append 'rdinit=/test.sh' -o test.writes\n"
    "  prologue live judge boot.writes"
)


def add_options(added: argparse.ArgumentParser) -> None:
    """All options."""
    added.add_argument("--vmlinux", type=Path, required=True, help="unstripped; boots on QEMU's virt board")
    added.add_argument("-o", "--output", type=Path, required=True, metavar="FILE",
                       help="the recording, readable by its owner only; FILE.log is the console")  # fmt: skip
    added.add_argument("--image", type=Path, help="flat Image of that vmlinux (default: made from it)")
    added.add_argument("--initrd", type=Path, metavar="CPIO",
                       help="what to run; it must power off (default: power off at once)")  # fmt: skip
    added.add_argument("--append", default="", metavar="WORDS", help="for the kernel's command line")
    added.add_argument("--cpu", default=CPU, metavar="MODEL", help="of QEMU (default: %(default)s)")
    added.add_argument("--smp", type=number_from(1), default=CPUS, metavar="N", help="CPUs (default: %(default)s)")
    added.add_argument("--memory", type=number_from(64), default=MEMORY, metavar="MIB",
                       help="RAM (default: %(default)s)")  # fmt: skip
    added.add_argument("--timeout", type=number_from(1), default=TIMEOUT, metavar="SECONDS",
                       help="until the power-off (default: %(default)s)")  # fmt: skip
